/* Batches of messages in and out of libpulsar, so that Python makes one call for many of them.
 *
 * libpulsar's C interface takes and gives one message a call, and calls back from threads of its own. Through ctypes
 * each call costs a microsecond and each callback takes the interpreter's lock. Here a call hands over an array of
 * rows; what came of them, and messages that were received, come out as arrays of rows.
 *
 * One thread uses a sender or a reader; libpulsar's threads only run the callbacks below. Everything else of libpulsar
 * (clients, settings, producers, consumers) is made in Python, by its own C interface.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define KPG_FULL (-184)   /* the row found no room; librdkafka's number, as the engine's callers know it */
#define KPG_EOF (-191)    /* the partition's backlog has been read to its end */
#define KPG_STRANGE (-201) /* a message that was received has an id that fits into no position */
#define WORDS 400
#define CELLS 8192        /* of a reader's ring: a listener that finds none free waits */
#define FULL_US 200

/* libpulsar's C interface, as far as it is used here. Python looks the functions up by these names (kpg_called) and
 * gives them to kpg_bind, so that nothing is linked, and that tests can put functions of their own in their place. */
typedef struct pulsar_producer pulsar_producer;
typedef struct pulsar_consumer pulsar_consumer;
typedef struct pulsar_message pulsar_message;
typedef struct pulsar_message_id pulsar_message_id;
typedef void (*on_sent_fn)(int result, pulsar_message_id *id, void *context);
typedef void (*on_result_fn)(int result, void *context);
#define CALLED(X)                                                                                            \
    X(pulsar_message *, message_create, (void))                                                              \
    X(void, message_free, (pulsar_message *))                                                                \
    X(void, message_set_content, (pulsar_message *, const void *, size_t))                                   \
    X(void, message_set_partition_key, (pulsar_message *, const char *))                                     \
    X(const void *, message_get_data, (pulsar_message *))                                                    \
    X(uint32_t, message_get_length, (pulsar_message *))                                                      \
    X(int, message_get_redelivery_count, (pulsar_message *))                                                 \
    X(pulsar_message_id *, message_get_message_id, (pulsar_message *))                                       \
    X(void *, message_id_serialize, (const pulsar_message_id *, int *))                                      \
    X(pulsar_message_id *, message_id_deserialize, (const void *, uint32_t))                                 \
    X(const pulsar_message_id *, message_id_earliest, (void))                                                \
    X(void, message_id_free, (pulsar_message_id *))                                                          \
    X(void, producer_send_async, (pulsar_producer *, pulsar_message *, on_sent_fn, void *))                  \
    X(void, consumer_acknowledge_async, (pulsar_consumer *, pulsar_message *, on_result_fn, void *))         \
    X(void, consumer_acknowledge_cumulative_async,                                                           \
      (pulsar_consumer *, pulsar_message *, on_result_fn, void *))                                           \
    X(void, consumer_seek_async, (pulsar_consumer *, const pulsar_message_id *, on_result_fn, void *))       \
    X(int, consumer_get_last_message_id, (pulsar_consumer *, pulsar_message_id *))
#define MEMBER(result, name, arguments) result(*name) arguments;
#define NAME(result, name, arguments) "pulsar_" #name " "
static struct {
    CALLED(MEMBER)
} pulsar;

const char *kpg_called(void) { return CALLED(NAME); }

void kpg_bind(void *const *functions) { memcpy(&pulsar, functions, sizeof pulsar); }

/* ROW of native.py. */
typedef struct {
    uint64_t payload, len, key, key_len, private;
    int64_t offset;
    int32_t partition, err;
    int64_t at_ns;   /* CLOCK_MONOTONIC, when its outcome came */
    uint64_t handle; /* of a received message, until kpg_done */
    int32_t redelivered, spare;
} row;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* --- positions ------------------------------------------------------------------------------------------------- */

#define LEDGER_BITS 22
#define ENTRY_BITS 27
#define BATCH_BITS 14

/* The position of a message (perfgate/load/positions.py says what it is for); -1 when it does not fit. */
int64_t kpg_position(int64_t ledger, int64_t entry, int64_t batch) {
    if (batch < 0) batch = 0;
    if (ledger < 0 || entry < 0 || entry >> ENTRY_BITS || batch >> BATCH_BITS) return -1;
    ledger &= (1 << LEDGER_BITS) - 1;
    return ledger << (ENTRY_BITS + BATCH_BITS) | entry << BATCH_BITS | batch;
}

/* Reads a serialised message id: ledger, entry, partition and index in its batch, numbered 1 to 4, as protobuf. */
int64_t kpg_position_of(const uint8_t *data, int size) {
    int64_t found[5] = {0, -1, -1, -1, -1};
    const uint8_t *end = data + size;
    while (data < end) {
        uint64_t number[2] = {0, 0}; /* the tag, then the value */
        for (int part = 0; part < 2; part++) {
            for (int shift = 0; data < end; shift += 7) {
                uint8_t byte = *data++;
                if (shift < 64) number[part] |= (uint64_t)(byte & 127) << shift;
                if (byte < 128) break;
            }
            if (number[0] & 7) return kpg_position(found[1], found[2], found[4]); /* a bit set follows the numbers */
        }
        if (number[0] >> 3 < 5) found[number[0] >> 3] = (int64_t)number[1];
    }
    return kpg_position(found[1], found[2], found[4]);
}

static int64_t position_of(const pulsar_message_id *id) {
    int size = 0;
    uint8_t *data = pulsar.message_id_serialize(id, &size);
    int64_t position = kpg_position_of(data, size);
    free(data);
    return position;
}

/* --- waking ---------------------------------------------------------------------------------------------------- */

typedef struct {
    int fd;
    atomic_int raised;
} bell;

static void ring_bell(bell *b) {
    if (!atomic_exchange(&b->raised, 1)) {
        uint64_t one = 1;
        while (write(b->fd, &one, sizeof one) < 0 && errno == EINTR) {
        }
    }
}

/* Before one looks for what the bell was rung for: what comes after rings again. */
static void quiet(bell *b) {
    uint64_t count;
    if (!atomic_load(&b->raised)) return;
    while (read(b->fd, &count, sizeof count) < 0 && errno == EINTR) {
    }
    atomic_store(&b->raised, 0);
}

static void wait_for(bell *b, int64_t ns) {
    struct pollfd poll = {b->fd, POLLIN, 0};
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    if (ns > 0) ppoll(&poll, 1, &time, NULL);
}

/* --- what libpulsar logs --------------------------------------------------------------------------------------- */

/* libpulsar keeps one logger a process, the first client's. The last warning is kept, cut off. */
static atomic_int words_lock;
static char words[WORDS];
static atomic_ullong words_count;

_Bool kpg_log_enabled(int level, void *context) {
    (void)context;
    return level >= 2; /* warnings and errors */
}

void kpg_log(int level, const char *file, int line, const char *message, void *context) {
    (void)level, (void)file, (void)line, (void)context;
    int free_ = 0;
    if (!atomic_compare_exchange_strong(&words_lock, &free_, 1)) return;
    strncpy(words, message, WORDS - 1);
    atomic_fetch_add(&words_count, 1);
    atomic_store(&words_lock, 0);
}

/* Copies the last warning; returns how many there have been. */
uint64_t kpg_words(char *into, int size) {
    int free_ = 0;
    while (!atomic_compare_exchange_weak(&words_lock, &free_, 1)) free_ = 0;
    strncpy(into, words, size - 1);
    into[size - 1] = 0;
    atomic_store(&words_lock, 0);
    return atomic_load(&words_count);
}

/* --- sending --------------------------------------------------------------------------------------------------- */

struct sender;

/* A message on its way. Its thread takes it from the free ones and gives it back; in between one callback fills it. */
typedef struct {
    struct sender *owner;
    uint64_t private, len;
    int64_t offset, at_ns;
    int32_t partition, err;
} slot;

typedef struct sender {
    bell bell;
    int partitions;
    pulsar_producer **producers;
    uint32_t slots, idle_count, mask, head;
    uint64_t most_bytes, bytes;
    slot *all;
    uint32_t *idle;           /* a stack: the slot that was used last is in the CPU's cache */
    atomic_uint *heard, tail; /* a ring of outcomes: 1 + the slot's number; 0: not written yet */
} sender;

static _Thread_local slot *handing_over;

void kpg_sender_free(sender *s) {
    if (!s) return;
    if (s->bell.fd >= 0) close(s->bell.fd);
    free(s->producers), free(s->all), free(s->idle), free(s->heard), free(s);
}

/* A sender with room for `slots` messages and `most_bytes` of values at a time; NULL without memory. */
sender *kpg_sender_new(int partitions, uint32_t slots, uint64_t most_bytes) {
    uint32_t ring = 2;
    while (ring < slots) ring *= 2;
    sender *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->bell.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    s->partitions = partitions, s->slots = slots, s->mask = ring - 1, s->most_bytes = most_bytes;
    s->producers = calloc(partitions, sizeof *s->producers);
    s->all = calloc(slots, sizeof *s->all);
    s->idle = calloc(slots, sizeof *s->idle);
    s->heard = calloc(ring, sizeof *s->heard);
    if (s->bell.fd < 0 || !s->producers || !s->all || !s->idle || !s->heard) {
        kpg_sender_free(s);
        return NULL;
    }
    for (uint32_t n = slots; n > 0; n--) s->idle[s->idle_count++] = n - 1;
    return s;
}

void kpg_sender_set(sender *s, int partition, pulsar_producer *producer) { s->producers[partition] = producer; }

static void on_sent(int result, pulsar_message_id *id, void *context) {
    slot *sent = context;
    sender *s = sent->owner;
    sent->err = result;
    sent->offset = id && !result ? position_of(id) : -1; /* -1, too, where it fits into no position */
    if (id) pulsar.message_id_free(id);
    if (sent == handing_over) { /* refused at once, in the call that handed it over */
        handing_over = NULL;
        return;
    }
    sent->at_ns = now_ns();
    uint32_t at = atomic_fetch_add(&s->tail, 1); /* the ring has room for all slots */
    atomic_store_explicit(&s->heard[at & s->mask], (uint32_t)(sent - s->all) + 1, memory_order_release);
    ring_bell(&s->bell);
}

/* The partition of a key: String.hashCode() of Java, as its client's default. */
int kpg_partition_of(const char *key, int partitions) {
    uint32_t hash = 0;
    for (; *key; key++) hash = hash * 31 + (unsigned char)*key;
    return (int)((hash & 0x7fffffff) % (uint32_t)partitions);
}

/* Writes a key as text: as it is where that is printable, otherwise in Base64, as the Java client sends bytes. */
int kpg_key_text(const uint8_t *key, uint64_t size, char *into) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *at = into;
    uint64_t plain = 0;
    while (plain < size && key[plain] > 32 && key[plain] < 127) plain++;
    if (plain == size) {
        memcpy(into, key, size);
        into[size] = 0;
        return (int)size;
    }
    for (uint64_t n = 0; n < size; n += 3) {
        uint32_t bits = (uint32_t)key[n] << 16;
        if (n + 1 < size) bits |= (uint32_t)key[n + 1] << 8;
        if (n + 2 < size) bits |= key[n + 2];
        *at++ = digits[bits >> 18];
        *at++ = digits[bits >> 12 & 63];
        *at++ = n + 1 < size ? digits[bits >> 6 & 63] : '=';
        *at++ = n + 2 < size ? digits[bits & 63] : '=';
    }
    *at = 0;
    return (int)(at - into);
}

/* Hands rows over, to this partition or, where it is negative, to the one of each one's key; returns how many were
 * taken. A row that was not has its `err`: KPG_FULL from the first on that found no room, or libpulsar's reason. */
int kpg_send(sender *s, row *rows, int count, int partition) {
    int taken = 0;
    for (int n = 0; n < count; n++) {
        row *r = rows + n;
        if (!s->idle_count || (s->bytes + r->len > s->most_bytes && s->idle_count < s->slots)) {
            for (; n < count; n++) rows[n].err = KPG_FULL;
            break;
        }
        int to = partition;
        char text[256];
        pulsar_message *message = pulsar.message_create();
        pulsar.message_set_content(message, (void *)r->payload, r->len);
        if (r->key_len) {
            kpg_key_text((uint8_t *)r->key, r->key_len > 128 ? 128 : r->key_len, text);
            pulsar.message_set_partition_key(message, text);
            if (to < 0) to = kpg_partition_of(text, s->partitions);
        }
        if (to < 0) to = 0;
        slot *sent = s->all + s->idle[--s->idle_count];
        *sent = (slot){.owner = s, .private = r->private, .len = r->len, .partition = to};
        s->bytes += r->len;
        handing_over = sent;
        pulsar.producer_send_async(s->producers[to], message, on_sent, sent);
        if (!handing_over) {
            r->err = sent->err;
            s->idle[s->idle_count++] = (uint32_t)(sent - s->all);
            s->bytes -= r->len;
        } else {
            r->partition = to;
            taken++;
        }
        handing_over = NULL;
        pulsar.message_free(message);
    }
    return taken;
}

uint32_t kpg_under_way(const sender *s) { return s->slots - s->idle_count; }

/* Takes outcomes, at most this many, in the order in which they came; returns how many. */
int kpg_take(sender *s, row *rows, int most) {
    int count = 0;
    quiet(&s->bell);
    while (count < most) {
        atomic_uint *place = &s->heard[s->head & s->mask];
        uint32_t number = atomic_load_explicit(place, memory_order_acquire);
        if (!number) return count;
        atomic_store_explicit(place, 0, memory_order_relaxed);
        s->head++;
        slot *sent = s->all + number - 1;
        rows[count++] = (row){.len = sent->len,
                              .private = sent->private,
                              .offset = sent->offset,
                              .partition = sent->partition,
                              .err = sent->err,
                              .at_ns = sent->at_ns};
        s->idle[s->idle_count++] = number - 1;
        s->bytes -= sent->len;
    }
    ring_bell(&s->bell); /* there may be more */
    return count;
}

void kpg_sender_wait(sender *s, int64_t ns) { wait_for(&s->bell, ns); }

/* Asks for the position of a partition's last message, -1 where it has none; returns libpulsar's error. */
int kpg_last_position(pulsar_consumer *consumer, int64_t *position) {
    int size = 0;
    void *data = pulsar.message_id_serialize(pulsar.message_id_earliest(), &size);
    pulsar_message_id *id = pulsar.message_id_deserialize(data, (uint32_t)size);
    int result = pulsar.consumer_get_last_message_id(consumer, id);
    *position = result ? -1 : position_of(id);
    pulsar.message_id_free(id);
    free(data);
    return result;
}

/* --- reading --------------------------------------------------------------------------------------------------- */

/* Messages come by libpulsar's listeners. Its receive call with a callback is no way: a message that comes while the
 * call is made can lie in the queue behind it, so that a later one overtakes it, or it is never given (seen). */

typedef struct {
    struct reader *owner;
    pulsar_consumer *consumer;
    int partition;
    atomic_int at_end; /* its end was given */
    int64_t end;       /* position of the last message of a backlog; -1: there is none */
    uint32_t acknowledged; /* the call of kpg_done that did it last */
} part;

/* A place in the ring. `turn` is the number of the row that may be written to it, or one more when that can be read. */
typedef struct {
    atomic_uint turn;
    row read;
} cell;

typedef struct reader {
    bell bell;
    int partitions;
    part *parts;
    cell *cells;
    atomic_uint tail;
    uint32_t head, calls;
    atomic_int closing;
} reader;

void kpg_reader_free(reader *r) {
    if (!r) return;
    if (r->bell.fd >= 0) close(r->bell.fd);
    free(r->parts), free(r->cells), free(r);
}

reader *kpg_reader_new(int partitions) {
    reader *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->partitions = partitions;
    r->bell.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    r->parts = calloc(partitions, sizeof *r->parts);
    r->cells = calloc(CELLS, sizeof *r->cells);
    if (r->bell.fd < 0 || !r->parts || !r->cells) {
        kpg_reader_free(r);
        return NULL;
    }
    for (int n = 0; n < partitions; n++) r->parts[n] = (part){.owner = r, .partition = n, .end = -1};
    for (uint32_t n = 0; n < CELLS; n++) atomic_store(&r->cells[n].turn, n);
    return r;
}

/* The context with which a partition's listener is called. */
void *kpg_reader_part(reader *r, int partition) { return r->parts + partition; }

/* Names the consumer of a partition before its listener is first called, and the position of the last message of its
 * backlog, or -1. */
void kpg_reader_set(reader *r, int partition, pulsar_consumer *consumer, int64_t end) {
    r->parts[partition].consumer = consumer;
    r->parts[partition].end = end;
}

/* Has listeners that wait for room give up: nothing more is read. */
void kpg_reader_close(reader *r) { atomic_store(&r->closing, 1); }

static int put(reader *r, row from) {
    uint32_t at = atomic_fetch_add(&r->tail, 1);
    cell *into = r->cells + at % CELLS;
    while (atomic_load_explicit(&into->turn, memory_order_acquire) != at) {
        if (atomic_load(&r->closing)) return 0;
        usleep(FULL_US);
    }
    into->read = from;
    atomic_store_explicit(&into->turn, at + 1, memory_order_release);
    ring_bell(&r->bell);
    return 1;
}

/* The listener of every consumer. */
void kpg_listener(pulsar_consumer *consumer, pulsar_message *message, void *context) {
    (void)consumer; /* a handle for this call alone */
    part *p = context;
    pulsar_message_id *id = pulsar.message_get_message_id(message);
    int64_t position = position_of(id);
    pulsar.message_id_free(id);
    row received = {.payload = (uint64_t)pulsar.message_get_data(message),
                    .len = pulsar.message_get_length(message),
                    .offset = position,
                    .partition = p->partition,
                    .err = position < 0 ? KPG_STRANGE : 0,
                    .at_ns = now_ns(),
                    .handle = (uint64_t)message,
                    .redelivered = pulsar.message_get_redelivery_count(message)};
    if (!put(p->owner, received)) pulsar.message_free(message);
    if (p->end >= 0 && position >= p->end && !atomic_exchange(&p->at_end, 1))
        put(p->owner, (row){.partition = p->partition, .err = KPG_EOF, .offset = p->end});
}

static void on_sought(int result, void *context) {
    part *p = context;
    if (result) put(p->owner, (row){.partition = p->partition, .err = result, .offset = -1});
}

/* Reads a partition from its first message again; a failure comes as a row with its error. */
void kpg_rewind(reader *r, int partition) {
    part *p = r->parts + partition;
    atomic_store(&p->at_end, 0);
    pulsar.consumer_seek_async(p->consumer, pulsar.message_id_earliest(), on_sought, p);
}

/* Takes what was received, at most this many rows; returns how many. Each is to be given to kpg_done. Rows with an
 * `err` are no messages: KPG_EOF, or why a partition could not be rewound. */
int kpg_receive(reader *r, row *rows, int most) {
    int count = 0;
    quiet(&r->bell);
    while (count < most) {
        cell *from = r->cells + r->head % CELLS;
        if (atomic_load_explicit(&from->turn, memory_order_acquire) != r->head + 1) return count;
        rows[count++] = from->read;
        atomic_store_explicit(&from->turn, r->head + CELLS, memory_order_release);
        r->head++;
    }
    ring_bell(&r->bell); /* there may be more */
    return count;
}

void kpg_reader_wait(reader *r, int64_t ns) { wait_for(&r->bell, ns); }

/* Acknowledges these rows (0: none; 1: of each partition the last and all before it; 2: each) and forgets them. */
void kpg_done(reader *r, const row *rows, int count, int acknowledge) {
    r->calls++;
    for (int n = count - 1; n >= 0; n--) {
        pulsar_message *message = (pulsar_message *)rows[n].handle;
        if (!message) continue;
        part *p = r->parts + rows[n].partition;
        if (acknowledge == 1 && p->acknowledged != r->calls)
            pulsar.consumer_acknowledge_cumulative_async(p->consumer, message, NULL, NULL);
        if (acknowledge == 2) pulsar.consumer_acknowledge_async(p->consumer, message, NULL, NULL);
        p->acknowledged = r->calls;
        pulsar.message_free(message);
    }
}
