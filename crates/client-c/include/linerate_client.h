/*
 * Consumers of a Linerate cluster: packets of another process, without a copy.
 *
 * Compile with what pkg-config --cflags --libs linerate-client says; linerate_client(3) has an example. A
 * consumer is used by one thread at a time. Functions that return an int return -1 when the server is gone,
 * has ended this consumer, or something else is wrong: lr_error() says what, and nothing but
 * lr_read_figures() and lr_detach() makes sense then.
 *
 * This file is made of crates/client-c/src/lib.rs.
 */

#ifndef LINERATE_CLIENT_H
#define LINERATE_CLIENT_H

#include <stddef.h>
#include <stdint.h>

/**
 * Most packets of a burst.
 */
#define LR_BURST 64

/**
 * A verdict: the packet is dropped.
 */
#define LR_DROP 0

/**
 * A verdict: it goes on, changed or not.
 */
#define LR_PASS 1

/**
 * A verdict: it is dropped, and so are from now on all of its flow, in both directions, unasked.
 */
#define LR_DROP_FLOW 2

/**
 * A verdict: it goes on, and so do from now on all of its flow, in both directions, unasked.
 */
#define LR_PASS_FLOW 3

/**
 * A place in a cluster.
 */
typedef struct lr_consumer lr_consumer;

/**
 * A packet of a burst. It is there until the next call of lr_receive, lr_send, lr_answer,
 * lr_wait, lr_prepare_wait or lr_detach.
 */
typedef struct {
  /**
   * Its bytes.
   */
  const uint8_t *data;
  /**
   * Their number.
   */
  size_t length;
  /**
   * Time of reception, in nanoseconds since the epoch; 0 where its port was not asked for it.
   */
  uint64_t time;
} lr_packet;

/**
 * The server's counts of a consumer, over all programs that were attached by its name.
 */
typedef struct {
  /**
   * Packets lent to it.
   */
  uint64_t packets;
  /**
   * Their bytes.
   */
  uint64_t bytes;
  /**
   * Packets it did not get because it did not keep up.
   */
  uint64_t lost_full;
  /**
   * Packets it did not get because no program was attached.
   */
  uint64_t lost_absent;
  /**
   * Packets it has sent.
   */
  uint64_t sent;
  /**
   * Buffers it holds now.
   */
  uint64_t held;
  /**
   * Packets that wait for it now.
   */
  uint64_t waiting;
} lr_figures;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Attaches to the cluster at a socket, a file's name or @NAME, as the consumer of that name. NULL when
 * it cannot: error, of size bytes and perhaps NULL, then has a text that says why.
 */
lr_consumer *lr_attach(const char *socket,
                       const char *name,
                       char *error,
                       size_t size);

/**
 * Gives back the rest of the last burst, takes the next and puts its packets into an array of
 * LR_BURST; returns how many. Never waits.
 */
int lr_receive(lr_consumer *consumer, lr_packet *packets);

/**
 * The bytes of a packet of the burst, for writing; NULL where others have it too, this consumer may only
 * read, or there are not so many.
 */
uint8_t *lr_writable(lr_consumer *consumer,
                     size_t at);

/**
 * Sends those packets of the burst whose byte in an array of LR_BURST is not zero, or all where it is
 * NULL; returns how many. The burst is over then.
 */
int lr_send(lr_consumer *consumer,
            const uint8_t *chosen);

/**
 * 1 where an InlineConsumer of the configuration asks this consumer about packets, else 0.
 */
int lr_is_asked(const lr_consumer *consumer);

/**
 * Answers for the packets of the burst: a verdict for each in an array of LR_BURST, or
 * all pass where it is NULL; any other value drops. Returns how many pass. The burst is over then. For
 * packets that were asked about lr_send says that they pass, and the end of a burst that they are dropped.
 */
int lr_answer(lr_consumer *consumer,
              const uint8_t *verdicts);

/**
 * Sends a packet of this program's own, which is copied: 1, or 0 when there is no buffer for it now.
 */
int lr_transmit(lr_consumer *consumer,
                const void *data,
                size_t length);

/**
 * Waits for packets, for so many milliseconds at most, without limit below zero: 1 when there are some,
 * else 0. A signal does not end it. The burst is over then.
 */
int lr_wait(lr_consumer *consumer,
            int milliseconds);

/**
 * To be called before each wait by poll(2) or epoll(7): 1 when there is something to wait
 * for, 0 when there are packets already. The burst is over then.
 */
int lr_prepare_wait(lr_consumer *consumer);

/**
 * The descriptor that is readable then.
 */
int lr_fd(const lr_consumer *consumer);

/**
 * The figures of this consumer, as the server has them, or had when it ended.
 */
void lr_read_figures(const lr_consumer *consumer, lr_figures *figures);

/**
 * The text of the last error, which is there until the next call.
 */
const char *lr_error(const lr_consumer *consumer);

/**
 * Gives all back and ends the consumer. NULL is none.
 */
void lr_detach(lr_consumer *consumer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LINERATE_CLIENT_H */
