/* A Kafka client that is faster than the broker it measures: librdkafka, driven from C.
 *
 *   kafka_load produce ADDRESS TOPIC PARTITIONS SIZE COUNT LINGER_MS
 *   kafka_load consume ADDRESS TOPIC PARTITIONS SIZE COUNT
 *   kafka_load latency ADDRESS TOPIC SIZE COUNT RATE
 *
 * Prints one line: `name=value` pairs, seconds and messages per second, or microseconds for `latency`.
 */
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECONDS_MAX 180.0
#define BATCH 10000

static long answered, refused;
static double *answer_times;
static double *arrival_times;
static long arrived;
static volatile int is_following;

static const char *address, *topic;
static long count;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *why) {
    fprintf(stderr, "kafka_load: %s\n", why);
    exit(1);
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char why[256];
    if (rd_kafka_conf_set(conf, key, value, why, sizeof why) != RD_KAFKA_CONF_OK) fail(why);
}

static void delivered(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    (void)opaque;
    if (message->err) {
        refused++;
        return;
    }
    double sent = *(double *)message->payload;
    if (answer_times && sent <= 0) return;
    if (answer_times) answer_times[answered] = now() - sent;
    answered++;
}

static rd_kafka_t *producer(const char *linger_ms) {
    char why[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", address);
    set(conf, "acks", "all");
    set(conf, "linger.ms", linger_ms);
    set(conf, "queue.buffering.max.messages", "400000");
    set(conf, "queue.buffering.max.kbytes", "262144");
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    rd_kafka_t *client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (!client) fail(why);
    return client;
}

static rd_kafka_t *consumer(int partitions, int64_t offset) {
    char why[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", address);
    set(conf, "group.id", "load");
    set(conf, "enable.auto.commit", "false");
    set(conf, "fetch.wait.max.ms", "100");
    set(conf, "queued.min.messages", "1000000");
    set(conf, "queued.max.messages.kbytes", "262144");
    rd_kafka_t *client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    if (!client) fail(why);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    for (int i = 0; i < partitions; i++) rd_kafka_topic_partition_list_add(list, topic, i)->offset = offset;
    rd_kafka_assign(client, list);
    return client;
}

static void *follow(void *unused) {
    (void)unused;
    rd_kafka_t *client = consumer(1, RD_KAFKA_OFFSET_END);
    double begin = now();
    while (arrived < count && now() - begin < SECONDS_MAX) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(client, 100);
        if (!message) continue;
        if (!message->err) {
            double sent = *(double *)message->payload;
            is_following = 1;
            if (sent > 0) arrival_times[arrived++] = now() - sent;
        }
        rd_kafka_message_destroy(message);
    }
    return NULL;
}

static int by_value(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double at(double *sorted, long n, double share) { return n ? sorted[(long)((double)(n - 1) * share)] * 1e6 : -1; }

static void send_one(rd_kafka_t *client, rd_kafka_topic_t *handle, int partition, char *value, size_t size) {
    while (rd_kafka_produce(handle, partition, RD_KAFKA_MSG_F_COPY, value, size, NULL, 0, NULL) == -1) {
        if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL) fail(rd_kafka_err2str(rd_kafka_last_error()));
        rd_kafka_poll(client, 5);
    }
}

static char *value_of(size_t size) {
    char *value = malloc(size);
    for (size_t i = 0; i < size; i++) value[i] = (char)rand();
    return value;
}

static void produce(int partitions, size_t size, const char *linger_ms) {
    rd_kafka_t *client = producer(linger_ms);
    rd_kafka_topic_t *handle = rd_kafka_topic_new(client, topic, NULL);
    char *value = value_of(size);
    double begin = now();
    for (long i = 0; i < count; i++) {
        send_one(client, handle, (int)(i % partitions), value, size);
        if ((i & 1023) == 0) rd_kafka_poll(client, 0);
    }
    while (answered + refused < count && now() - begin < SECONDS_MAX) rd_kafka_poll(client, 100);
    double seconds = now() - begin;
    printf("answered=%ld refused=%ld seconds=%.3f rate=%.0f\n", answered, refused, seconds, (double)answered / seconds);
}

static void consume(int partitions) {
    rd_kafka_t *client = consumer(partitions, 0);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);
    static rd_kafka_message_t *messages[BATCH];
    long n = 0;
    double begin = now(), first = 0, last = 0;
    while (n < count && now() - begin < SECONDS_MAX) {
        ssize_t got = rd_kafka_consume_batch_queue(queue, 1000, messages, BATCH);
        if (got > 0 && !first) first = now();
        for (ssize_t i = 0; i < got; i++) {
            if (!messages[i]->err) n++;
            rd_kafka_message_destroy(messages[i]);
        }
        if (got > 0) last = now();
    }
    printf("consumed=%ld seconds=%.3f rate=%.0f\n", n, last - first, (double)n / (last - first));
}

static void latency(size_t size, double rate) {
    rd_kafka_t *client = producer("0");
    rd_kafka_topic_t *handle = rd_kafka_topic_new(client, topic, NULL);
    char *value = value_of(size);
    pthread_t follower;
    answer_times = malloc(sizeof(double) * (size_t)count);
    arrival_times = malloc(sizeof(double) * (size_t)count);
    pthread_create(&follower, NULL, follow, NULL);
    /* Messages without a time, until one has come through: the follower stands at the end by then. */
    memset(value, 0, sizeof(double));
    while (!is_following) {
        send_one(client, handle, 0, value, size);
        rd_kafka_poll(client, 0);
        usleep(20000);
    }
    usleep(300000);
    double begin = now();
    for (long i = 0; i < count; i++) {
        double due = begin + (double)i / rate, left;
        while ((left = due - now()) > 0) {
            rd_kafka_poll(client, 0);
            usleep(left > 200e-6 ? 200 : (useconds_t)(left * 1e6));
        }
        double sent = now();
        memcpy(value, &sent, sizeof sent);
        send_one(client, handle, 0, value, size);
        rd_kafka_poll(client, 0);
    }
    while (answered + refused < count && now() - begin < SECONDS_MAX) rd_kafka_poll(client, 100);
    pthread_join(follower, NULL);
    qsort(answer_times, (size_t)answered, sizeof(double), by_value);
    qsort(arrival_times, (size_t)arrived, sizeof(double), by_value);
    printf("answered=%ld arrived=%ld answer_p50=%.0f answer_p99=%.0f arrival_p50=%.0f arrival_p99=%.0f\n", answered, arrived,
           at(answer_times, answered, 0.5), at(answer_times, answered, 0.99), at(arrival_times, arrived, 0.5),
           at(arrival_times, arrived, 0.99));
}

int main(int words, char **word) {
    if (words < 7) fail("see the head of kafka_load.c");
    address = word[2];
    topic = word[3];
    if (!strcmp(word[1], "produce") && words == 8) {
        count = atol(word[6]);
        produce(atoi(word[4]), (size_t)atol(word[5]), word[7]);
    } else if (!strcmp(word[1], "consume")) {
        count = atol(word[6]);
        consume(atoi(word[4]));
    } else if (!strcmp(word[1], "latency")) {
        count = atol(word[5]);
        latency((size_t)atol(word[4]), atof(word[6]));
    } else {
        fail("see the head of kafka_load.c");
    }
    fflush(stdout);
    _exit(refused ? 1 : 0);
}
