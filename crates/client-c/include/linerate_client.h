/*
 * Consumers of a Linerate cluster: packets of another process, without a copy.
 *
 * Link with -llinerate_client_c. A consumer is used by one thread at a time. Functions that return an
 * int return -1 when the server is gone, has ended this consumer, or something else is wrong:
 * lr_error() says what, and nothing but lr_detach() makes sense then.
 */
#ifndef LINERATE_CLIENT_H
#define LINERATE_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Most packets of a burst. */
#define LR_BURST 64

/* A place in a cluster. */
typedef struct lr_consumer lr_consumer;

/* A packet of a burst. It is there until the next call of lr_receive, lr_send, lr_wait,
 * lr_prepare_wait or lr_detach. */
typedef struct {
	const uint8_t *data;
	size_t length;
} lr_packet;

/* What the server counts of a consumer, over all programs that were attached by its name. */
typedef struct {
	uint64_t packets;     /* packets lent to it */
	uint64_t bytes;       /* their bytes */
	uint64_t lost_full;   /* packets it did not get because it did not keep up */
	uint64_t lost_absent; /* packets it did not get because nobody was attached */
	uint64_t sent;        /* packets it has sent */
	uint64_t held;        /* buffers it holds now */
	uint64_t waiting;     /* packets that wait for it now */
} lr_figures;

/* Attaches to the cluster at a socket, a file's name or @NAME, as the consumer of that name. NULL when
 * it cannot: error, of size bytes and perhaps NULL, then has a text that says why. */
lr_consumer *lr_attach(const char *socket, const char *name, char *error, size_t size);

/* Gives back what is left of the last burst, takes the next and puts its packets into an array of
 * LR_BURST; returns how many. Never waits. */
int lr_receive(lr_consumer *consumer, lr_packet *packets);

/* The bytes of a packet of the burst, for writing; NULL where others have it too, this consumer may only
 * read, or there are not so many. */
uint8_t *lr_writable(lr_consumer *consumer, size_t at);

/* Sends those packets of the burst whose byte in an array of LR_BURST is not zero, or all where it is
 * NULL; returns how many. The burst is over then. */
int lr_send(lr_consumer *consumer, const uint8_t *chosen);

/* Sends a packet of this program's own: 1, or 0 when there is no buffer for it now. */
int lr_transmit(lr_consumer *consumer, const void *data, size_t length);

/* Waits for packets, for so many milliseconds at most, without limit below zero: 1 when there are some,
 * else 0. The burst is over then. */
int lr_wait(lr_consumer *consumer, int milliseconds);

/* For who waits by poll(2) or epoll(7): to be called each time before, 1 when there is something to wait
 * for, 0 when there are packets already. */
int lr_prepare_wait(lr_consumer *consumer);

/* The descriptor that is readable then. */
int lr_fd(const lr_consumer *consumer);

/* The figures of this consumer, as the server has them. */
void lr_read_figures(const lr_consumer *consumer, lr_figures *figures);

/* What went wrong last. */
const char *lr_error(const lr_consumer *consumer);

/* Gives all back and ends the consumer. */
void lr_detach(lr_consumer *consumer);

#ifdef __cplusplus
}
#endif

#endif
