/*
 * DPDK's rings, pools and packet buffers: TSC cycles per object, in bursts.
 *
 *   rte_ops EAL-ARGUMENTS -- --case CASE [--burst 32] [--ms 300] [--ring 1024]
 *
 *   ring-spsc, ring-mpmc      enqueue_bulk and dequeue_bulk on one core
 *   ring-spsc-2, ring-mpmc-2  a producer on the second core, the consumer on the first
 *   ring-spsc-mbuf-2          the same with packet buffers that the producer allocates and the
 *                             consumer frees, as between two stages of a pipeline
 *   pool                      mempool get_bulk and put_bulk, cache of 256 objects
 *   mbuf                      packet buffers allocated and freed
 *
 * One object is one pointer through the ring, or one buffer taken and given back. A sample is a
 * block of objects large enough that reading the counter costs nothing and short enough that most
 * blocks are not interrupted; blocks are taken until the time is over.
 *
 * Burst 1 uses the single-object calls of mempool and mbuf, which DPDK makes faster than a bulk
 * call with one object. The burst is a run-time value: no caller knows it when compiling.
 */
#include <stdbool.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_pause.h>
#include <rte_ring.h>

#include "common.h"

#define MAX_BURST 256
#define BLOCK (1 << 17) /* objects per sample, one core */
#define BLOCK_2 (1 << 18) /* objects per sample, two cores */
#define POOL_SIZE 16383 /* one less than a power of two suits rte_mempool best */
#define POOL_CACHE 256

static struct rte_ring *ring;
static struct rte_mempool *pool;
static unsigned burst;
static volatile bool stop;

/* One function per ring kind, so that the compiler sees which one is called. */
#define ONE_CORE(name, enqueue, dequeue)                                                           \
	static unsigned name(void **objects, unsigned rounds)                                      \
	{                                                                                          \
		unsigned moved = 0;                                                                \
		for (unsigned i = 0; i < rounds; i++) {                                            \
			moved += enqueue(ring, objects, burst, NULL);                              \
			moved += dequeue(ring, objects, burst, NULL);                              \
		}                                                                                  \
		return moved;                                                                      \
	}
ONE_CORE(spsc, rte_ring_sp_enqueue_bulk, rte_ring_sc_dequeue_bulk)
ONE_CORE(mpmc, rte_ring_mp_enqueue_bulk, rte_ring_mc_dequeue_bulk)

#define TWO_CORES(kind, enqueue, dequeue)                                                          \
	static int kind##_produce(void *unused)                                                    \
	{                                                                                          \
		void *objects[MAX_BURST] = {NULL};                                                 \
		(void)unused;                                                                      \
		while (!stop)                                                                      \
			if (enqueue(ring, objects, burst, NULL) == 0)                              \
				rte_pause();                                                       \
		return 0;                                                                          \
	}                                                                                          \
	static unsigned kind##_consume(void **objects, unsigned rounds)                            \
	{                                                                                          \
		for (unsigned i = 0; i < rounds; i++)                                              \
			while (dequeue(ring, objects, burst, NULL) == 0)                           \
				rte_pause();                                                       \
		return rounds * burst * 2;                                                         \
	}
TWO_CORES(spsc, rte_ring_sp_enqueue_bulk, rte_ring_sc_dequeue_bulk)
TWO_CORES(mpmc, rte_ring_mp_enqueue_bulk, rte_ring_mc_dequeue_bulk)

static unsigned pool_ops(void **objects, unsigned rounds)
{
	unsigned failed = 0;

	if (burst == 1) {
		for (unsigned i = 0; i < rounds; i++) {
			failed += rte_mempool_get(pool, objects) != 0;
			rte_mempool_put(pool, objects[0]);
		}
	} else {
		for (unsigned i = 0; i < rounds; i++) {
			failed += rte_mempool_get_bulk(pool, objects, burst) != 0;
			rte_mempool_put_bulk(pool, objects, burst);
		}
	}
	return failed == 0 ? rounds * burst * 2 : 0;
}

static unsigned mbuf_ops(void **objects, unsigned rounds)
{
	struct rte_mbuf **mbufs = (struct rte_mbuf **)objects;
	unsigned failed = 0;

	if (burst == 1) {
		for (unsigned i = 0; i < rounds; i++) {
			mbufs[0] = rte_pktmbuf_alloc(pool);
			failed += mbufs[0] == NULL;
			rte_pktmbuf_free(mbufs[0]);
		}
	} else {
		for (unsigned i = 0; i < rounds; i++) {
			failed += rte_pktmbuf_alloc_bulk(pool, mbufs, burst) != 0;
			rte_pktmbuf_free_bulk(mbufs, burst);
		}
	}
	return failed == 0 ? rounds * burst * 2 : 0;
}

static int mbuf_produce(void *unused)
{
	struct rte_mbuf *mbufs[MAX_BURST];

	(void)unused;
	while (!stop) {
		if (rte_pktmbuf_alloc_bulk(pool, mbufs, burst) != 0) {
			rte_pause();
			continue;
		}
		while (rte_ring_sp_enqueue_bulk(ring, (void **)mbufs, burst, NULL) == 0) {
			if (stop) {
				rte_pktmbuf_free_bulk(mbufs, burst);
				return 0;
			}
			rte_pause();
		}
	}
	return 0;
}

static unsigned mbuf_consume(void **objects, unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		while (rte_ring_sc_dequeue_bulk(ring, objects, burst, NULL) == 0)
			rte_pause();
		rte_pktmbuf_free_bulk((struct rte_mbuf **)objects, burst);
	}
	return rounds * burst * 2;
}

struct operation {
	const char *name;
	unsigned (*block)(void **objects, unsigned rounds);
	int (*produce)(void *unused); /* on the second core, or none */
};

static const struct operation OPERATIONS[] = {
	{"ring-spsc", spsc, NULL},
	{"ring-mpmc", mpmc, NULL},
	{"ring-spsc-2", spsc_consume, spsc_produce},
	{"ring-mpmc-2", mpmc_consume, mpmc_produce},
	{"ring-spsc-mbuf-2", mbuf_consume, mbuf_produce},
	{"pool", pool_ops, NULL},
	{"mbuf", mbuf_ops, NULL},
};

int main(int argc, char **argv)
{
	static double samples[MAX_SAMPLES];
	void *objects[MAX_BURST] = {NULL};
	const struct operation *operation = NULL;
	unsigned count = 0;
	int used = rte_eal_init(argc, argv);

	if (used < 0)
		rte_exit(1, "rte_ops: EAL does not start\n");
	argc -= used;
	argv += used;

	const char *name = option(argc, argv, "case", "ring-spsc");
	burst = number(argc, argv, "burst", 32, 1, MAX_BURST);
	long ms = number(argc, argv, "ms", 300, 1, 60000);
	long size = number(argc, argv, "ring", 1024, 2 * MAX_BURST, 1 << 20);

	for (unsigned i = 0; i < RTE_DIM(OPERATIONS); i++)
		if (strcmp(OPERATIONS[i].name, name) == 0)
			operation = &OPERATIONS[i];
	if (operation == NULL)
		rte_exit(2, "rte_ops: unknown case %s\n", name);

	ring = rte_ring_create("ops", size, SOCKET_ID_ANY,
			       strncmp(name, "ring-spsc", 9) == 0
				       ? RING_F_SP_ENQ | RING_F_SC_DEQ : 0);
	pool = rte_pktmbuf_pool_create("ops", POOL_SIZE, POOL_CACHE, 0,
				       RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	if (ring == NULL || pool == NULL)
		rte_exit(1, "rte_ops: no memory for the ring or the pool\n");

	if (operation->produce != NULL) {
		unsigned other = rte_get_next_lcore(-1, 1, 0);

		if (other >= RTE_MAX_LCORE)
			rte_exit(2, "rte_ops: %s needs two cores\n", name);
		rte_eal_remote_launch(operation->produce, NULL, other);
	}

	unsigned rounds = (operation->produce ? BLOCK_2 : BLOCK) / burst;
	unsigned expected = rounds * burst * 2;
	uint64_t end = rte_rdtsc() + rte_get_tsc_hz() * ms / 1000;

	operation->block(objects, rounds); /* warms caches and fills the pool's cache */
	do {
		uint64_t start = rte_rdtsc();
		unsigned moved = operation->block(objects, rounds);
		uint64_t cycles = rte_rdtsc() - start;

		if (moved != expected)
			rte_exit(1, "rte_ops: %s moved %u instead of %u\n", name, moved, expected);
		samples[count++] = (double)cycles / (rounds * burst);
	} while (rte_rdtsc() < end && count < MAX_SAMPLES);

	stop = true;
	rte_eal_mp_wait_lcore();
	print_samples(name, burst, samples, count, rte_get_tsc_hz());
	rte_eal_cleanup();
	return 0;
}
