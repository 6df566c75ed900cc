/*
 * Consumers of a Linerate cluster: packets of another process, without a copy.
 *
 * Compile with what pkg-config --cflags --libs linerate-client says; linerate_client(3) has an example. A
 * consumer is used by one thread at a time. Functions that return an int return -1 when the server is gone,
 * has ended this consumer, or something else is wrong: lr_error() says what, and nothing but
 * lr_read_figures() and lr_detach() makes sense then.
 *
 * This file is made of crates/cluster/client-c/src/lib.rs.
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
 * Verdict: drop the packet.
 */
#define LR_DROP 0

/**
 * Verdict: pass the packet, changed or not.
 */
#define LR_PASS 1

/**
 * Verdict: drop the packet and, without asking again, its flow in both directions.
 */
#define LR_DROP_FLOW 2

/**
 * Verdict: pass the packet and, without asking again, its flow in both directions.
 */
#define LR_PASS_FLOW 3

/**
 * A consumer that is attached to a cluster.
 */
typedef struct lr_consumer lr_consumer;

/**
 * A packet of a burst, valid until the next call of lr_receive, lr_send, lr_answer, lr_wait,
 * lr_prepare_wait or lr_detach.
 */
typedef struct {
  /**
   * Its bytes.
   */
  const uint8_t *data;
  /**
   * Number of its bytes.
   */
  size_t length;
  /**
   * Time of reception, in nanoseconds since the epoch; 0 unless the port was asked for timestamps.
   */
  uint64_t time;
} lr_packet;

/**
 * The server's counters of a consumer, over all programs that were attached under its name.
 */
typedef struct {
  /**
   * Packets handed to the consumer.
   */
  uint64_t packets;
  /**
   * Bytes of these packets.
   */
  uint64_t bytes;
  /**
   * Packets lost because the consumer did not keep up.
   */
  uint64_t lost_full;
  /**
   * Packets lost because no program was attached.
   */
  uint64_t lost_absent;
  /**
   * Packets that the consumer has sent.
   */
  uint64_t sent;
  /**
   * Buffers that the consumer holds now.
   */
  uint64_t held;
  /**
   * Packets that wait for the consumer now.
   */
  uint64_t waiting;
} lr_figures;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Attaches to the cluster at socket, a path or @NAME, as the consumer name. Returns NULL on failure,
 * and writes the reason to error, of size bytes, unless that is NULL.
 */
lr_consumer *lr_attach(const char *socket,
                       const char *name,
                       char *error,
                       size_t size);

/**
 * Gives back the rest of the last burst, takes the next burst and puts its packets into an array of
 * LR_BURST. Returns their number. Never waits.
 */
int lr_receive(lr_consumer *consumer, lr_packet *packets);

/**
 * Returns the bytes of packet at of the burst for writing; NULL if other consumers have the packet, too,
 * if this consumer may only read, or if the burst has fewer packets.
 */
uint8_t *lr_writable(lr_consumer *consumer,
                     size_t at);

/**
 * Sends the packets of the burst that are not zero in chosen, an array of LR_BURST bytes, or all if
 * that is NULL. Returns the number sent. Ends the burst.
 */
int lr_send(lr_consumer *consumer,
            const uint8_t *chosen);

/**
 * Returns 1 if an InlineConsumer of the configuration asks this consumer for verdicts, else 0.
 */
int lr_is_asked(const lr_consumer *consumer);

/**
 * Gives a verdict on each packet of the burst, from an array of LR_BURST; all packets pass if that is
 * NULL, and values that are no verdict drop. Returns the number that pass. Ends the burst. A consumer that
 * is asked for verdicts can also pass packets by lr_send; those left at the end of a burst are dropped.
 */
int lr_answer(lr_consumer *consumer,
              const uint8_t *verdicts);

/**
 * Sends a copy of length bytes as a packet. Returns 1, or 0 if no buffer is free now.
 */
int lr_transmit(lr_consumer *consumer, const void *data, size_t length);

/**
 * Waits for packets, at most milliseconds, or without a limit if that is negative. Returns 1 if there are
 * packets, else 0. A signal does not end the wait. Ends the burst.
 */
int lr_wait(lr_consumer *consumer,
            int milliseconds);

/**
 * Prepares a wait for lr_fd by poll(2) or epoll(7); call it before each. Returns 1 if the program can
 * wait, 0 if there are packets already. Ends the burst.
 */
int lr_prepare_wait(lr_consumer *consumer);

/**
 * Returns the descriptor that becomes readable, after lr_prepare_wait, when there are packets.
 */
int lr_fd(const lr_consumer *consumer);

/**
 * Reads the server's counters of this consumer, or the last ones if the server has ended.
 */
void lr_read_figures(const lr_consumer *consumer, lr_figures *figures);

/**
 * Returns the text of the last error, valid until the next call.
 */
const char *lr_error(const lr_consumer *consumer);

/**
 * Gives all packets back and frees the consumer. Does nothing if it is NULL.
 */
void lr_detach(lr_consumer *consumer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LINERATE_CLIENT_H */
