import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Takes records of a share group in explicit mode, keeps one of them for longer than its lock lasts by renewing it, and settles the
 * others: ACCEPT what is even, REJECT "5", RELEASE "7" once. Writes a line for all it sees.
 */
public class Renewal {
    public static void main(String[] arguments) throws Exception {
        String address = arguments[0], group = arguments[1], topic = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        String mode = arguments[4];
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", address,
            "group.id", group,
            "share.acknowledgement.mode", "explicit",
            "share.acquire.mode", mode,
            "max.poll.records", "4");
        int settled = 0, most = 0;
        try (var consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            ConsumerRecord<String, String> kept = null;
            int renewals = 0;
            while (settled < count) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
                most = Math.max(most, records.count());
                for (ConsumerRecord<String, String> record : records) {
                    String value = record.value();
                    int delivery = record.deliveryCount().orElse((short) 0);
                    if (value.equals("3") && renewals < 4) {
                        consumer.acknowledge(record, AcknowledgeType.RENEW);
                        kept = record;
                        continue;
                    }
                    if (value.equals("7") && delivery == 1) {
                        consumer.acknowledge(record, AcknowledgeType.RELEASE);
                        System.out.println("release " + value + " " + delivery);
                        continue;
                    }
                    AcknowledgeType type = value.equals("5") ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
                    consumer.acknowledge(record, type);
                    settled++;
                    System.out.println(type.toString().toLowerCase() + " " + value + " " + delivery);
                }
                for (Map.Entry<TopicIdPartition, Optional<KafkaException>> result : consumer.commitSync().entrySet()) {
                    if (result.getValue().isPresent()) {
                        throw result.getValue().get();
                    }
                }
                if (kept != null) {
                    renewals++;
                    System.out.println("renew " + kept.value() + " " + renewals);
                    kept = null;
                    Thread.sleep(400);
                }
            }
        }
        System.out.println("most " + most);
    }
}
