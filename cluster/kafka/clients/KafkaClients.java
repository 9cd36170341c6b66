import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The clients of one run in one JVM: Kafka's own producers and consumers. A line of standard input is a command, a line
 * of standard output an event, both JSON; the end of the input ends everything at once.
 */
public final class KafkaClients {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    private static final Map<String, Client> CLIENTS = new HashMap<>();

    private interface Client {
        void order(JsonNode command);

        void close();
    }

    public static void main(String[] arguments) throws Exception {
        say("ready", "");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            JsonNode command = JSON.readTree(line);
            String name = command.get("client").asText();
            switch (command.get("do").asText()) {
                case "producer":
                    CLIENTS.put(name, new Producer(name, command));
                    break;
                case "consumer":
                    CLIENTS.put(name, new Consumer(name, command));
                    break;
                case "close":
                    CLIENTS.remove(name).close();
                    break;
                default:
                    CLIENTS.get(name).order(command);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    /** fields: name, value, name, value, ... */
    private static void say(String event, String client, Object... fields) {
        ObjectNode line = JSON.createObjectNode();
        line.put("event", event).put("client", client);
        for (int i = 0; i < fields.length; i += 2) {
            line.set((String) fields[i], JSON.valueToTree(fields[i + 1]));
        }
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }

    /** As on the wire; an exception that has no code there goes by its class. */
    private static String errorOf(Throwable failure) {
        if (failure instanceof LogTruncationException) {
            return "LOG_TRUNCATION";
        }
        if (failure instanceof NoOffsetForPartitionException) {
            return "NO_OFFSET_FOR_PARTITION";
        }
        Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
        Errors code = Errors.forException(cause);
        return code == Errors.UNKNOWN_SERVER_ERROR ? cause.getClass().getSimpleName() : code.name();
    }

    private static Map<String, Object> configOf(JsonNode command) {
        Map<String, Object> config = new HashMap<>();
        command.get("config").fields().forEachRemaining(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        return config;
    }

    private static byte[] bytesOf(JsonNode text) {
        return text == null || text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    /** One application thread sends; a second one flushes, so that a batch leaves once its last record is in it. */
    private static final class Producer implements Client {
        private final String name;
        private final String topic;
        private final Map<String, Object> config;
        private final ExecutorService application = daemon();
        private final ExecutorService flusher = daemon();
        private volatile KafkaProducer<byte[], byte[]> producer;
        private volatile boolean closed;

        Producer(String name, JsonNode command) {
            this.name = name;
            this.topic = command.get("topic").asText();
            this.config = configOf(command);
            application.submit(() -> {
                try {
                    producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
                    producer.partitionsFor(topic);
                } catch (TimeoutException notThere) {
                    // A step of the timeline may make the topic later: each record waits for it, as this has.
                } catch (RuntimeException failure) {
                    tell("broken", "error", errorOf(failure), "message", String.valueOf(failure.getMessage()));
                }
                tell("opened");
            });
        }

        private static ExecutorService daemon() {
            return Executors.newSingleThreadExecutor(work -> {
                Thread thread = new Thread(work);
                thread.setDaemon(true);
                return thread;
            });
        }

        private void tell(String event, Object... fields) {
            if (!closed) {
                say(event, name, fields);
            }
        }

        @Override
        public void order(JsonNode command) {
            long asked = System.nanoTime();
            application.submit(() -> {
                if (producer == null) {
                    return;
                }
                for (JsonNode record : command.get("records")) {
                    send(record, asked);
                }
                if (command.get("flush").asBoolean()) {
                    KafkaProducer<byte[], byte[]> flushed = producer;
                    flusher.submit(flushed::flush);
                }
            });
        }

        private void send(JsonNode record, long asked) {
            String recordName = record.get("name").asText();
            JsonNode partition = record.get("partition");
            ProducerRecord<byte[], byte[]> sent = new ProducerRecord<>(
                topic, partition.isNull() ? null : partition.asInt(), bytesOf(record.get("key")), bytesOf(record.get("value")));
            try {
                producer.send(sent, (metadata, failure) -> settled(recordName, metadata, failure, asked));
            } catch (RuntimeException failure) {
                settled(recordName, null, failure, asked);
            }
        }

        private void settled(String record, RecordMetadata metadata, Exception failure, long asked) {
            long micros = (System.nanoTime() - asked) / 1000;
            int partition = metadata == null ? -1 : metadata.partition();
            if (failure == null) {
                long offset = metadata.hasOffset() ? metadata.offset() : -1;
                tell("acked", "record", record, "partition", partition, "offset", offset, "micros", micros);
            } else {
                tell("failed", "record", record, "partition", partition, "error", errorOf(failure),
                    "message", String.valueOf(failure.getMessage()), "micros", micros);
            }
        }

        @Override
        public void close() {
            closed = true;
            application.shutdownNow();
            flusher.shutdownNow();
            KafkaProducer<byte[], byte[]> last = producer;
            if (last != null) {
                new Thread(() -> last.close(Duration.ZERO)).start();
            }
        }
    }

    /** Reads all partitions of its topics, without a group, and says where its position moves by itself. */
    private static final class Consumer implements Client {
        private static final Duration POLL = Duration.ofMillis(50);
        private static final long UNKNOWN = -1;
        private final String name;
        private final List<String> topics = new ArrayList<>();
        private final Set<String> found = new HashSet<>();
        private final Map<String, Object> config;
        private final Queue<JsonNode> orders = new ConcurrentLinkedQueue<>();
        private final Map<TopicPartition, Long> next = new HashMap<>();
        private final Set<TopicPartition> given = new HashSet<>();
        private final ExecutorService asker = Producer.daemon();
        private KafkaConsumer<byte[], byte[]> consumer;
        private KafkaConsumer<byte[], byte[]> asking;
        private volatile boolean closed;

        Consumer(String name, JsonNode command) {
            this.name = name;
            command.get("topics").forEach(topic -> topics.add(topic.asText()));
            this.config = configOf(command);
            Thread thread = new Thread(this::run);
            thread.setDaemon(true);
            thread.start();
        }

        private KafkaConsumer<byte[], byte[]> made() {
            return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        private void tell(String event, Object... fields) {
            if (!closed) {
                say(event, name, fields);
            }
        }

        private void run() {
            try {
                consumer = made();
                tell("opened");
                while (!closed) {
                    assignNew();
                    readOn();
                    for (JsonNode order; (order = orders.poll()) != null; ) {
                        seek(order);
                    }
                }
            } catch (WakeupException end) {
                // Closed.
            } catch (RuntimeException failure) {
                tell("broken", "error", errorOf(failure), "message", String.valueOf(failure.getMessage()));
            } finally {
                if (consumer != null) {
                    consumer.close(Duration.ZERO);
                }
            }
        }

        /** Until the topics are there; what was assigned keeps its position. */
        private void assignNew() {
            if (given.isEmpty()) {
                found.clear();
            }
            for (String topic : topics) {
                if (!found.contains(topic)) {
                    assign(topic);
                }
            }
        }

        private void assign(String topic) {
            try {
                for (PartitionInfo info : consumer.partitionsFor(topic, Duration.ofSeconds(1))) {
                    given.add(new TopicPartition(topic, info.partition()));
                    found.add(topic);
                }
                consumer.assign(given);
            } catch (TimeoutException failure) {
                // No broker has answered yet.
            }
        }

        private void readOn() {
            ConsumerRecords<byte[], byte[]> records = ConsumerRecords.empty();
            try {
                if (given.isEmpty()) {
                    LockSupport.parkNanos(POLL.toNanos());
                    return;
                }
                records = consumer.poll(POLL);
            } catch (InvalidOffsetException lost) {
                giveUp(lost);
            } catch (WakeupException end) {
                throw end;
            } catch (RuntimeException failure) {
                tell("poll_failed", "error", errorOf(failure), "message", String.valueOf(failure.getMessage()));
            }
            for (TopicPartition partition : new ArrayList<>(given)) {
                follow(partition, records.records(partition));
            }
        }

        private void giveUp(InvalidOffsetException lost) {
            for (TopicPartition partition : lost.partitions()) {
                tell("fetch_failed", "topic", partition.topic(), "partition", partition.partition(),
                    "offset", next.getOrDefault(partition, UNKNOWN), "error", errorOf(lost));
                given.remove(partition);
            }
            consumer.assign(given);
        }

        private void follow(TopicPartition partition, List<ConsumerRecord<byte[], byte[]>> records) {
            long before = next.getOrDefault(partition, UNKNOWN);
            if (!records.isEmpty() && records.get(0).offset() < before || before == UNKNOWN && !records.isEmpty()) {
                moved(partition, before, records.get(0).offset());
            }
            for (ConsumerRecord<byte[], byte[]> record : records) {
                byte[] text = record.value() != null ? record.value() : record.key();
                String value = text == null ? "?" : new String(text, StandardCharsets.UTF_8);
                tell("read", "topic", partition.topic(), "partition", partition.partition(), "offset", record.offset(),
                    "record", value.split(" ", 2)[0], "leader_epoch", record.leaderEpoch().orElse(-1));
                next.put(partition, record.offset() + 1);
            }
            long position;
            try {
                position = consumer.position(partition, Duration.ZERO);
            } catch (TimeoutException | InvalidOffsetException unknown) {
                return;
            }
            before = next.getOrDefault(partition, UNKNOWN);
            // With records, what lies between the last one and the position holds none: a marker, or what was compacted.
            if (position < before || records.isEmpty() && position != before) {
                moved(partition, before, position);
            }
            next.put(partition, position);
        }

        private void moved(TopicPartition partition, long before, long position) {
            tell("reset", "topic", partition.topic(), "partition", partition.partition(), "offset", position,
                "previous_offset", before);
        }

        private static TopicPartition partitionOf(JsonNode order) {
            return new TopicPartition(order.get("topic").asText(), order.get("partition").asInt());
        }

        private void seek(JsonNode order) {
            TopicPartition partition = partitionOf(order);
            String to = order.get("to").asText();
            if (given.add(partition)) {
                consumer.assign(given);
            }
            if (to.equals("beginning")) {
                consumer.seekToBeginning(List.of(partition));
            } else if (to.equals("end")) {
                consumer.seekToEnd(List.of(partition));
            } else {
                consumer.seek(partition, Long.parseLong(to));
            }
        }

        @Override
        public void order(JsonNode command) {
            if (command.get("do").asText().equals("seek")) {
                orders.add(command);
            } else {
                asker.submit(() -> askEnd(partitionOf(command), command.get("within_ms").asLong()));
            }
        }

        /** By a consumer of its own, as another thread of the application has one: the first goes on reading. */
        private void askEnd(TopicPartition asked, long withinMs) {
            try {
                if (asking == null) {
                    asking = made();
                }
                long end = asking.endOffsets(List.of(asked), Duration.ofMillis(withinMs)).get(asked);
                end(asked, end, null);
            } catch (RuntimeException failure) {
                end(asked, UNKNOWN, errorOf(failure));
            }
        }

        private void end(TopicPartition asked, long offset, String error) {
            tell("end_offset", "topic", asked.topic(), "partition", asked.partition(), "offset", offset, "error", error);
        }

        @Override
        public void close() {
            closed = true;
            asker.submit(() -> {
                if (asking != null) {
                    asking.close(Duration.ZERO);
                }
            });
            asker.shutdown();
            KafkaConsumer<byte[], byte[]> last = consumer;
            if (last != null) {
                last.wakeup();
            }
        }
    }
}
