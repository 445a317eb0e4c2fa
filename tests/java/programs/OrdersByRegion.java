import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * Adds up orders by the region of their customers: a join over a repartition topic, then a sum over another one.
 *
 * OrdersByRegion ADDRESS APPLICATION STATE_DIRECTORY GUARANTEE THREADS ENDPOINT runs until it is asked for the end on standard input.
 * It says each state that it comes into, and where the sum of a region can be asked for.
 */
public class OrdersByRegion {
    public static void main(String[] arguments) throws Exception {
        String application = arguments[1];
        Properties properties = new Properties();
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[3]);
        properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments[4]);
        properties.put(StreamsConfig.APPLICATION_SERVER_CONFIG, arguments[5]);
        properties.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put("auto.offset.reset", "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, String> regions = builder.table(application + ".customers");
        builder.<String, String>stream(application + ".orders")
            .selectKey((order, said) -> said.split(":")[0])
            .join(regions, (order, region) -> region + ":" + order.split(":")[1])
            .groupBy((customer, joined) -> joined.split(":")[0])
            .aggregate(
                () -> "0:0",
                (region, joined, sum) -> {
                    String[] parts = sum.split(":");
                    long count = Long.parseLong(parts[0]) + 1;
                    return count + ":" + (Long.parseLong(parts[1]) + Long.parseLong(joined.split(":")[1]));
                },
                Materialized.as("sums"))
            .toStream()
            .to(application + ".totals");

        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setStateListener((state, before) -> say("state " + state));
        streams.setUncaughtExceptionHandler(fault -> {
            say("fault " + fault);
            fault.printStackTrace();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        java.io.BufferedReader asked = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String line = asked.readLine(); line != null && !line.equals("end"); line = asked.readLine()) {
            var metadata = streams.queryMetadataForKey("sums", line, Serdes.String().serializer());
            var host = metadata.activeHost();
            say("at " + line + " " + host.host() + ":" + host.port() + " " + metadata.standbyHosts().size());
        }
        streams.close(java.time.Duration.ofSeconds(30));
        say("ended");
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
