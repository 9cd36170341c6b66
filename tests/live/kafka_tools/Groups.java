import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * java -cp JARS Groups.java BOOTSTRAP STEP...: members of one group, which read four partitions while they come and go.
 *
 * A step is NAME=PROTOCOL, a member that joins, or NAME, one that closes. After each the rest shares the partitions, reads
 * eight new records and commits; then a line says the group's type and how many partitions each has.
 */
class Groups {
    static final long PATIENCE_MS = 60_000;
    static final String TOPIC = "orders";
    static final int PARTITIONS = 4, RECORDS = 8;
    static final Map<String, KafkaConsumer<String, String>> members = new LinkedHashMap<>();
    static final Map<String, Integer> read = new TreeMap<>();
    static String bootstrap;
    static int sent;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        try (Admin admin = Admin.create(settings());
             KafkaProducer<String, String> producer = new KafkaProducer<>(settings())) {
            for (String step : List.of(arguments).subList(1, arguments.length)) {
                String[] parts = step.split("=");
                if (parts.length == 2) {
                    members.put(parts[0], consumer(parts[1]));
                } else {
                    members.remove(parts[0]).close();
                }
                pollUntil(Groups::isShared, step + " is not shared");
                for (int place = 0; place < RECORDS; place++, sent++) {
                    producer.send(new ProducerRecord<>(TOPIC, sent % PARTITIONS, null, "r" + sent)).get();
                }
                pollUntil(() -> read.size() == sent, step + " is not read");
                String type = admin.listGroups().all().get().stream().filter(group -> group.groupId().equals("g"))
                    .map(group -> group.type().get().toString()).collect(Collectors.joining());
                System.out.println(step + ": " + type + " " + shares());
            }
        }
        long twice = read.values().stream().filter(times -> times > 1).count();
        System.out.println("read " + read.size() + " of " + sent + ", " + twice + " of them more than once");
        System.exit(0);
    }

    interface Condition {
        boolean holds();
    }

    static void pollUntil(Condition condition, String otherwise) {
        long until = System.currentTimeMillis() + PATIENCE_MS;
        while (!condition.holds()) {
            if (System.currentTimeMillis() > until) {
                System.out.println(otherwise + ": " + shares());
                System.exit(1);
            }
            for (KafkaConsumer<String, String> member : members.values()) {
                for (ConsumerRecord<String, String> record : member.poll(Duration.ofMillis(50))) {
                    read.merge(record.value(), 1, Integer::sum);
                }
                commit(member);
            }
        }
    }

    /** A member that has not heard of its new epoch yet is refused (STALE_MEMBER_EPOCH): the next turn commits again. */
    static void commit(KafkaConsumer<String, String> member) {
        try {
            member.commitSync();
        } catch (CommitFailedException early) {
            System.err.println(early.getMessage());
        }
    }

    /** Each partition has one member, and each member has as many, or one more. */
    static boolean isShared() {
        Set<TopicPartition> found = new TreeSet<>((one, other) -> one.partition() - other.partition());
        int count = 0;
        for (KafkaConsumer<String, String> member : members.values()) {
            found.addAll(member.assignment());
            count += member.assignment().size();
            if (member.assignment().size() < PARTITIONS / members.size()) {
                return false;
            }
        }
        return found.size() == PARTITIONS && count == PARTITIONS;
    }

    static String shares() {
        return members.entrySet().stream().map(one -> one.getKey() + " " + one.getValue().assignment().size())
            .collect(Collectors.joining(", "));
    }

    static KafkaConsumer<String, String> consumer(String protocol) {
        Properties settings = settings();
        settings.put("group.id", "g");
        settings.put("group.protocol", protocol);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        if (protocol.equals("classic")) {
            settings.put("session.timeout.ms", "6000");
            settings.put("heartbeat.interval.ms", "200");
        }
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of(TOPIC));
        return consumer;
    }

    static Properties settings() {
        Properties settings = new Properties();
        String text = "org.apache.kafka.common.serialization.String";
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.serializer", text + "Serializer");
        settings.put("value.serializer", text + "Serializer");
        settings.put("key.deserializer", text + "Deserializer");
        settings.put("value.deserializer", text + "Deserializer");
        return settings;
    }
}
