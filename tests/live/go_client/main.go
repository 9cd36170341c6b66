// go run . BOOTSTRAP: what franz-go does with transactions, groups and acks, a line of JSON each.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 60 * time.Second

var bootstrap []string

func main() {
	bootstrap = strings.Split(os.Args[1], ",")
	ctx, stop := context.WithTimeout(context.Background(), 3*patience)
	defer stop()
	acks(ctx)
	endsAndReaders(ctx)
	zombie(ctx)
	transform(ctx, kgo.TryAbort)
	transform(ctx, kgo.TryCommit)
	say("bills committed", read(ctx, "bills", kgo.ReadCommitted(), "D"))
}

func say(what string, found any) {
	line, err := json.Marshal(map[string]any{"what": what, "found": found})
	must(err)
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func client(options ...kgo.Opt) *kgo.Client {
	known := []kgo.Opt{kgo.SeedBrokers(bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner())}
	made, err := kgo.NewClient(append(known, options...)...)
	must(err)
	return made
}

func record(topic, value string) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: 0, Value: []byte(value)}
}

func acks(ctx context.Context) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for _, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		for _, level := range []kgo.Acks{kgo.LeaderAck(), kgo.AllISRAcks()} {
			options := []kgo.Opt{kgo.RequiredAcks(level), kgo.ProducerBatchCompression(codecs[name])}
			if level == kgo.LeaderAck() {
				options = append(options, kgo.DisableIdempotentWrite())
			}
			producer := client(options...)
			must(producer.ProduceSync(ctx, record("plain", name), record("plain", strings.Repeat(name, 100))).FirstErr())
			producer.Close()
		}
	}
	last := client(kgo.RequiredAcks(kgo.AllISRAcks()))
	must(last.ProduceSync(ctx, record("plain", "end")).FirstErr())
	last.Close()
	say("plain", len(read(ctx, "plain", kgo.ReadUncommitted(), "end")))
}

func producer(id string) *kgo.Client {
	return client(kgo.TransactionalID(id))
}

func send(ctx context.Context, by *kgo.Client, topic string, values ...string) error {
	must(by.BeginTransaction())
	for _, value := range values {
		if err := by.ProduceSync(ctx, record(topic, value)).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

func endsAndReaders(ctx context.Context) {
	by := producer("go-tx")
	defer by.Close()
	must(send(ctx, by, "orders", "a", "b"))
	must(by.EndTransaction(ctx, kgo.TryCommit))
	must(send(ctx, by, "orders", "c"))
	must(by.EndTransaction(ctx, kgo.TryAbort))
	must(send(ctx, by, "orders", "d"))
	must(by.EndTransaction(ctx, kgo.TryCommit))
	say("committed", read(ctx, "orders", kgo.ReadCommitted(), "d"))
	say("uncommitted", read(ctx, "orders", kgo.ReadUncommitted(), "d"))
}

func zombie(ctx context.Context) {
	first := producer("go-fenced")
	defer first.Close()
	must(send(ctx, first, "bills", "z"))
	second := producer("go-fenced")
	defer second.Close()
	must(send(ctx, second, "bills", "s"))
	must(second.EndTransaction(ctx, kgo.TryCommit))
	err := first.EndTransaction(ctx, kgo.TryCommit)
	var refused *kerr.Error
	if errors.As(err, &refused) {
		say("zombie", refused.Message)
	} else {
		say("zombie", fmt.Sprint(err))
	}
}

// One round of consume-transform-produce of the three committed orders, by a member of a group.
func transform(ctx context.Context, end kgo.TransactionEndTry) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID("go-transform"), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RequireStableFetchOffsets(), kgo.Balancers(kgo.CooperativeStickyBalancer()),
	)
	must(err)
	defer session.Close()
	must(session.Begin())
	count := 0
	for count < 3 {
		fetched := session.PollFetches(ctx)
		must(fetched.Err())
		fetched.EachRecord(func(one *kgo.Record) {
			count++
			must(session.ProduceSync(ctx, record("bills", strings.ToUpper(string(one.Value)))).FirstErr())
		})
	}
	committed, err := session.End(ctx, end)
	must(err)
	say("transform", committed)
}

// From the start of the partition until `last` is there.
func read(ctx context.Context, topic string, level kgo.IsolationLevel, last string) []string {
	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	reader := client(kgo.ConsumePartitions(start), kgo.FetchIsolationLevel(level))
	defer reader.Close()
	values := []string{}
	for len(values) == 0 || values[len(values)-1] != last {
		fetched := reader.PollFetches(ctx)
		must(fetched.Err())
		fetched.EachRecord(func(one *kgo.Record) { values = append(values, string(one.Value)) })
	}
	return values
}
