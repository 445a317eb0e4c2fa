import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** Cases of RocketMQ's Java client over the remoting protocol: `RocketmqRemoting NAMES CASE SUFFIX` prints `ok CASE`. */
public class RocketmqRemoting {
    static String names, suffix;

    public static void main(String[] arguments) throws Exception {
        names = arguments[0];
        suffix = arguments[2];
        switch (arguments[1]) {
            case "sending": sending(); break;
            case "retry": retry(); break;
            case "orderly": orderly(); break;
            case "delay": delay(); break;
            case "lite": lite(); break;
            case "broadcast": broadcast(); break;
            case "balance": balance(); break;
            case "reply": reply(); break;
            case "recall": recall(); break;
            default: throw new IllegalArgumentException(arguments[1]);
        }
        System.out.println("ok " + arguments[1]);
        System.exit(0);
    }

    static DefaultMQProducer producer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producers-" + suffix);
        producer.setNamesrvAddr(names);
        producer.setSendMsgTimeout(20_000);
        producer.start();
        return producer;
    }

    static DefaultMQPushConsumer consumer(String group, String topic, String tags) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group + "-" + suffix);
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, tags);
        return consumer;
    }

    static Message message(String topic, String tags, String keys, String body) {
        return new Message(topic, tags, keys, body.getBytes(StandardCharsets.UTF_8));
    }

    static String body(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    static void check(boolean isSo, String what) {
        if (!isSo) {
            throw new AssertionError(what);
        }
    }

    static void await(CountDownLatch latch, String what) throws Exception {
        check(latch.await(50, TimeUnit.SECONDS), what + ": " + latch.getCount() + " are missing");
    }

    /** Every form of sending; a push consumer that filters by tags gets each once. */
    static void sending() throws Exception {
        String topic = "sending-" + suffix;
        DefaultMQProducer producer = producer();
        SendResult first = producer.send(message(topic, "a", "k1", "sync"));
        check(first.getSendStatus() == SendStatus.SEND_OK, "status");
        CountDownLatch sent = new CountDownLatch(1);
        producer.send(message(topic, "a", "k2", "async"), new SendCallback() {
            @Override public void onSuccess(SendResult result) { sent.countDown(); }
            @Override public void onException(Throwable error) { error.printStackTrace(); }
        });
        await(sent, "callback");
        producer.sendOneway(message(topic, "a", "k3", "one-way"));
        List<Message> many = new ArrayList<>();
        many.add(message(topic, "a", "k4", "batch-1"));
        many.add(message(topic, "b", "k5", "batch-2"));
        producer.send(many);
        Message large = message(topic, "c", "k6", "x".repeat(100_000));
        large.putUserProperty("own", "ü");
        producer.send(large);
        producer.send(message(topic, "unwanted", "k7", "unwanted"));
        Map<String, MessageExt> found = new ConcurrentHashMap<>();
        CountDownLatch all = new CountDownLatch(6);
        DefaultMQPushConsumer consumer = consumer("sending", topic, "a || b || c");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                if (found.put(one.getKeys(), one) == null) {
                    all.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        await(all, "messages");
        check(body(found.get("k6")).length() == 100_000, "large");
        check("ü".equals(found.get("k6").getUserProperty("own")), "property");
        check(found.get("k1").getMsgId().equals(first.getMsgId()), "id");
        check(found.get("k7") == null, "tags");
        MessageExt viewed = producer.viewMessage(topic, first.getOffsetMsgId());
        check("sync".equals(body(viewed)), "viewed by its offset id");
        consumer.shutdown();
        producer.shutdown();
    }

    /** What fails comes again, and is a dead letter in the end. */
    static void retry() throws Exception {
        String topic = "retry-" + suffix;
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "a", "k", "fails"));
        AtomicInteger tries = new AtomicInteger();
        CountDownLatch all = new CountDownLatch(2);
        DefaultMQPushConsumer consumer = consumer("retry", topic, "*");
        consumer.setMaxReconsumeTimes(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            check(messages.get(0).getReconsumeTimes() == tries.getAndIncrement(), "times");
            check(topic.equals(messages.get(0).getTopic()), "topic");
            all.countDown();
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        await(all, "tries");
        CountDownLatch dead = new CountDownLatch(1);
        String letters = "%DLQ%retry-" + suffix;
        for (int i = 0; i < 100; i++) {
            try {
                producer.fetchPublishMessageQueues(letters);
                break;
            } catch (Exception notYet) {
                Thread.sleep(100);
            }
        }
        DefaultMQPushConsumer reader = consumer("letters", letters, "*");
        reader.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            if ("fails".equals(body(messages.get(0)))) {
                dead.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        reader.start();
        await(dead, "dead letter");
        reader.shutdown();
        consumer.shutdown();
        producer.shutdown();
    }

    static void orderly() throws Exception {
        String topic = "orderly-" + suffix;
        DefaultMQProducer producer = producer();
        for (int i = 0; i < 30; i++) {
            producer.send(message(topic, "a", "k" + i, "" + i), (queues, one, key) -> queues.get((Integer) key % queues.size()), i % 3);
        }
        Map<Integer, List<Integer>> found = new ConcurrentHashMap<>();
        CountDownLatch all = new CountDownLatch(30);
        DefaultMQPushConsumer consumer = consumer("orderly", topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt one : messages) {
                found.computeIfAbsent(one.getQueueId(), id -> Collections.synchronizedList(new ArrayList<>())).add(Integer.valueOf(body(one)));
                all.countDown();
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        await(all, "messages");
        for (List<Integer> one : found.values()) {
            List<Integer> sorted = new ArrayList<>(one);
            Collections.sort(sorted);
            check(sorted.equals(one), "order " + one);
        }
        consumer.shutdown();
        producer.shutdown();
    }

    static void delay() throws Exception {
        String topic = "delay-" + suffix;
        DefaultMQProducer producer = producer();
        long begun = System.currentTimeMillis();
        Message level = message(topic, "a", "level", "level");
        level.setDelayTimeLevel(1);
        producer.send(level);
        Message timed = message(topic, "a", "timed", "timed");
        timed.setDelayTimeMs(1_500);
        producer.send(timed);
        Map<String, Long> found = new ConcurrentHashMap<>();
        CountDownLatch all = new CountDownLatch(2);
        DefaultMQPushConsumer consumer = consumer("delay", topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                found.put(body(one), System.currentTimeMillis() - begun);
                all.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        await(all, "messages");
        check(found.get("level") >= 950 && found.get("timed") >= 1_450, "times " + found);
        consumer.shutdown();
        producer.shutdown();
    }

    static void lite() throws Exception {
        String topic = "lite-" + suffix;
        DefaultMQProducer producer = producer();
        for (int i = 0; i < 10; i++) {
            producer.send(message(topic, "a", "k" + i, "" + i));
        }
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("lite-" + suffix);
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.start();
        int found = 0;
        for (int i = 0; i < 100 && found < 10; i++) {
            found += consumer.poll(500).size();
        }
        check(found == 10, "messages: " + found);
        consumer.commit();
        consumer.shutdown();
        producer.shutdown();
    }

    static void broadcast() throws Exception {
        String topic = "broadcast-" + suffix;
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "a", "k0", "before"));
        CountDownLatch all = new CountDownLatch(2);
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer consumer = consumer("broadcast", topic, "*");
            consumer.setMessageModel(MessageModel.BROADCASTING);
            consumer.setInstanceName("instance-" + i);
            AtomicInteger seen = new AtomicInteger();
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                if (seen.getAndAdd(messages.size()) == 0) {
                    all.countDown();
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        await(all, "consumers");
        for (DefaultMQPushConsumer consumer : consumers) {
            consumer.shutdown();
        }
        producer.shutdown();
    }

    /** Two consumers of one group share the queues; when one leaves, the other has all. */
    static void balance() throws Exception {
        String topic = "balance-" + suffix;
        DefaultMQProducer producer = producer();
        producer.send(message(topic, "a", "k", "warm"));
        Map<String, String> found = new ConcurrentHashMap<>();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer consumer = consumer("balance", topic, "*");
            consumer.setInstanceName("instance-" + i);
            String name = "" + i;
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt one : messages) {
                    found.put(body(one), name);
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        int round = 0;
        for (; round < 100 && !(found.containsValue("0") && found.containsValue("1")); round++) {
            for (int queue = 0; queue < 4; queue++) {
                producer.send(message(topic, "a", "k", round + "-" + queue), (queues, one, at) -> queues.get((Integer) at), queue);
            }
            Thread.sleep(200);
        }
        check(found.containsValue("0") && found.containsValue("1"), "both have queues " + found.values());
        consumers.get(0).shutdown();
        for (int queue = 0; queue < 4; queue++) {
            producer.send(message(topic, "a", "k", "last-" + queue), (queues, one, at) -> queues.get((Integer) at), queue);
        }
        for (int i = 0; i < 400 && !found.keySet().containsAll(List.of("last-0", "last-1", "last-2", "last-3")); i++) {
            Thread.sleep(100);
        }
        for (int queue = 0; queue < 4; queue++) {
            check("1".equals(found.get("last-" + queue)), "the second has all " + found);
        }
        consumers.get(1).shutdown();
        producer.shutdown();
    }

    /** A consumer replies to a request, and the producer that waits gets it. */
    static void reply() throws Exception {
        String topic = "reply-" + suffix;
        DefaultMQProducer producer = producer();
        DefaultMQProducer replier = new DefaultMQProducer("repliers-" + suffix);
        replier.setNamesrvAddr(names);
        replier.setInstanceName("replier");
        replier.start();
        DefaultMQPushConsumer consumer = consumer("reply", topic, "*");
        consumer.setInstanceName("replying");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                if (one.getKeys().equals("first")) {
                    continue;
                }
                try {
                    byte[] answer = ("answer to " + body(one)).getBytes(StandardCharsets.UTF_8);
                    replier.send(MessageUtil.createReplyMessage(one, answer));
                } catch (Exception error) {
                    error.printStackTrace();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        producer.send(message(topic, "a", "first", "first"));
        consumer.start();
        Message answer = producer.request(message(topic, "a", "k", "question"), 40_000);
        check("answer to question".equals(new String(answer.getBody(), StandardCharsets.UTF_8)), "reply");
        consumer.shutdown();
        replier.shutdown();
        producer.shutdown();
    }

    /** A delayed message that was recalled never comes; one that was not does. */
    static void recall() throws Exception {
        String topic = "recall-" + suffix;
        DefaultMQProducer producer = producer();
        Message kept = message(topic, "a", "kept", "kept");
        Message recalled = message(topic, "a", "recalled", "recalled");
        kept.setDelayTimeMs(6_000);
        recalled.setDelayTimeMs(5_000);
        producer.send(kept);
        String handle = producer.send(recalled).getRecallHandle();
        producer.recallMessage(topic, handle);
        try {
            producer.recallMessage(topic, handle);
            check(false, "recalled twice");
        } catch (MQBrokerException error) {
            // It is not scheduled any more.
        }
        Map<String, Boolean> found = new ConcurrentHashMap<>();
        CountDownLatch all = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = consumer("recall", topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                found.put(body(one), true);
                if (body(one).equals("kept")) {
                    all.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        await(all, "message");
        check(found.size() == 1, "recalled: " + found);
        consumer.shutdown();
        producer.shutdown();
    }
}
