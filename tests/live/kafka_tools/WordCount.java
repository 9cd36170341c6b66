import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;

/**
 * java -cp JARS WordCount.java BOOTSTRAP: two static members of an application count the words of `lines` into `counts`, with
 * group.protocol=streams and exactly once. Of 90 lines, 30 are sent, then it says so; the others follow slowly.
 */
class WordCount {
    static final long PATIENCE_MS = 240_000;
    static final String GROUP = "words";
    static final String[] WORDS = {"acks", "broker", "epoch", "leader", "log"};
    static final int LINES = 90, FIRST = 30;
    /** What each instance is to know of both: an endpoint, and how many partitions are read there. */
    static final Map<String, Integer> EVERYWHERE = Map.of("host1:8001", 3, "host2:8002", 3);
    static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        Map<String, Long> expected = new TreeMap<>(), counted = new TreeMap<>();
        List<KafkaStreams> instances = new ArrayList<>();
        try (Admin admin = Admin.create(common());
             KafkaProducer<String, String> producer = producer();
             KafkaConsumer<String, Long> results = results()) {
            for (int number = 1; number <= 2; number++) {
                instances.add(instance(number));
                await(() -> instances.stream().allMatch(one -> one.state() == KafkaStreams.State.RUNNING), "not running");
            }
            System.out.println(described(admin, 2));
            Condition isKnown = () -> instances.stream().allMatch(one -> readAt(one).equals(EVERYWHERE));
            await(isKnown, "not known: " + readAt(instances.get(0)) + ", " + readAt(instances.get(1)));
            results.subscribe(List.of("counts"));
            for (int line = 0; line < LINES; line++) {
                String text = Arrays.stream(WORDS).limit(1 + line % WORDS.length).collect(Collectors.joining(" "));
                producer.send(new ProducerRecord<>("lines", line % 3, null, text)).get();
                Arrays.stream(text.split(" ")).forEach(word -> expected.merge(word, 1L, Long::sum));
                if (line + 1 == FIRST) {
                    await(() -> sum(results, counted) == sum(expected), "not counted: " + counted);
                    System.out.println("counted " + sum(counted) + " words of " + FIRST + " lines");
                } else if (line >= FIRST) {
                    Thread.sleep(100);
                }
            }
            await(() -> sum(results, counted) >= sum(expected), "not counted: " + counted);
            String found = counted.equals(expected) ? "all counts are right: " : expected + " is counted as ";
            System.out.println(found + counted);
            System.out.println(described(admin, 2));
            instances.remove(0).close(Duration.ofSeconds(30));
            System.out.println(described(admin, 1));
            instances.remove(0).close(Duration.ofSeconds(30));
            await(() -> state(admin).equals("Empty"), "not empty");
            admin.deleteStreamsGroups(List.of(GROUP)).all().get();
            boolean isGone = admin.listGroups().all().get().stream().noneMatch(group -> group.groupId().equals(GROUP));
            System.out.println(isGone ? "deleted" : "not deleted");
        }
        System.exit(0);
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    static void await(Condition condition, String otherwise) throws Exception {
        long until = System.currentTimeMillis() + PATIENCE_MS;
        while (!condition.holds()) {
            if (System.currentTimeMillis() > until) {
                System.out.println(otherwise);
                System.exit(1);
            }
            Thread.sleep(50);
        }
    }

    static StreamsGroupDescription group(Admin admin) throws Exception {
        return admin.describeStreamsGroups(List.of(GROUP)).all().get().get(GROUP);
    }

    static String state(Admin admin) throws Exception {
        return group(admin).groupState().toString();
    }

    /** The group once it is stable with so many members: who they are, how many tasks they have, and what is its type. */
    static String described(Admin admin, int members) throws Exception {
        Condition isStable = () -> state(admin).equals("Stable") && group(admin).members().size() == members;
        await(isStable, "not stable: " + group(admin));
        List<Integer> tasks = group(admin).members().stream().map(member -> member.assignment().activeTasks().stream()
            .mapToInt(one -> one.partitions().size()).sum()).toList();
        String type = admin.listGroups().all().get().stream().filter(group -> group.groupId().equals(GROUP))
            .map(group -> group.type().get().toString()).collect(Collectors.joining());
        List<String> names = group(admin).members().stream().map(member -> member.instanceId().get()).sorted().toList();
        return type + " group of " + names + ", tasks " + tasks;
    }

    static Map<String, Integer> readAt(KafkaStreams instance) {
        return instance.metadataForAllStreamsClients().stream().collect(Collectors.toMap(
            one -> one.host() + ":" + one.port(), one -> one.topicPartitions().size()));
    }

    static long sum(Map<String, Long> counts) {
        return counts.values().stream().mapToLong(Long::longValue).sum();
    }

    static long sum(KafkaConsumer<String, Long> results, Map<String, Long> counted) {
        for (ConsumerRecord<String, Long> record : results.poll(Duration.ofMillis(100))) {
            counted.put(record.key(), record.value());
        }
        return sum(counted);
    }

    static KafkaStreams instance(int number) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream("lines");
        lines.flatMapValues(line -> List.of(line.split(" "))).groupBy((key, word) -> word).count()
            .toStream().to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        Properties settings = common();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, GROUP);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        settings.put(StreamsConfig.mainConsumerPrefix("group.instance.id"), "instance-" + number);
        settings.put(StreamsConfig.APPLICATION_SERVER_CONFIG, "host" + number + ":800" + number);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 3);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 500);
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 120_000);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("state" + number).toString());
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        return streams;
    }

    static KafkaProducer<String, String> producer() {
        return new KafkaProducer<>(common(), new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, Long> results() {
        Properties settings = common();
        settings.put("group.id", "reader");
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new LongDeserializer());
    }

    static Properties common() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        return settings;
    }
}
