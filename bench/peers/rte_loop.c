/*
 * The least a forwarder on DPDK's rings can do: TSC cycles per packet of a plain C loop.
 *
 *   rte_loop EAL-ARGUMENTS -- --case io|mac [--burst 32] [--ms 300] [--mbufs 512]
 *
 * Two single-producer single-consumer rings stand for two ports, as net_ring's do, and a fixed
 * number of 64-byte packets circulates between them, so nothing is allocated or freed.
 *
 *   io   pointers move, packets are not touched
 *   mac  both MAC addresses are overwritten, what testpmd's mac mode does; testpmd also sets
 *        fields of the packet buffer, which this loop does not
 */
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ether.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

#include "common.h"

#define MAX_BURST 256
#define MAX_MBUFS 8192
#define FRAME 64
#define BLOCK (1 << 17) /* packets per sample */

struct port {
	struct rte_ring *ring;
	struct rte_ether_addr own, peer;
	uint64_t received, sent;
};

static unsigned forward_io(struct port *from, struct port *to, unsigned burst)
{
	struct rte_mbuf *mbufs[MAX_BURST];
	unsigned received = rte_ring_sc_dequeue_burst(from->ring, (void **)mbufs, burst, NULL);
	unsigned sent = rte_ring_sp_enqueue_burst(to->ring, (void **)mbufs, received, NULL);

	from->received += received;
	to->sent += sent;
	return sent;
}

static unsigned forward_mac(struct port *from, struct port *to, unsigned burst)
{
	struct rte_mbuf *mbufs[MAX_BURST];
	unsigned received = rte_ring_sc_dequeue_burst(from->ring, (void **)mbufs, burst, NULL);

	for (unsigned i = 0; i < received; i++) {
		if (i + 1 < received)
			rte_prefetch0(rte_pktmbuf_mtod(mbufs[i + 1], void *));
		struct rte_ether_hdr *header = rte_pktmbuf_mtod(mbufs[i], struct rte_ether_hdr *);

		rte_ether_addr_copy(&to->peer, &header->dst_addr);
		rte_ether_addr_copy(&to->own, &header->src_addr);
	}
	unsigned sent = rte_ring_sp_enqueue_burst(to->ring, (void **)mbufs, received, NULL);

	from->received += received;
	to->sent += sent;
	return sent;
}

/* Both directions in turn until the block is full. */
#define LOOP(name, forward)                                                                        \
	static unsigned name(struct port *a, struct port *b, unsigned burst)                       \
	{                                                                                          \
		unsigned moved = 0;                                                                \
		while (moved < BLOCK) {                                                            \
			moved += forward(a, b, burst);                                             \
			moved += forward(b, a, burst);                                             \
		}                                                                                  \
		return moved;                                                                      \
	}
LOOP(loop_io, forward_io)
LOOP(loop_mac, forward_mac)

int main(int argc, char **argv)
{
	static double samples[MAX_SAMPLES];
	static struct port ports[2];
	unsigned count = 0;
	int used = rte_eal_init(argc, argv);

	if (used < 0)
		rte_exit(1, "rte_loop: EAL does not start\n");
	argc -= used;
	argv += used;

	const char *name = option(argc, argv, "case", "io");
	unsigned burst = number(argc, argv, "burst", 32, 1, MAX_BURST);
	long ms = number(argc, argv, "ms", 300, 1, 60000);
	long mbufs = number(argc, argv, "mbufs", 512, 2, MAX_MBUFS);
	unsigned (*loop)(struct port *, struct port *, unsigned) =
		strcmp(name, "io") == 0 ? loop_io : strcmp(name, "mac") == 0 ? loop_mac : NULL;

	if (loop == NULL)
		rte_exit(2, "rte_loop: unknown case %s\n", name);

	struct rte_mempool *pool = rte_pktmbuf_pool_create(
		"loop", 2 * MAX_MBUFS - 1, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	for (unsigned i = 0; i < 2; i++) {
		char label[] = {'p', '0' + i, '\0'};

		ports[i].ring = rte_ring_create(label, MAX_MBUFS, SOCKET_ID_ANY,
						RING_F_SP_ENQ | RING_F_SC_DEQ);
		rte_eth_random_addr(ports[i].own.addr_bytes);
		rte_eth_random_addr(ports[i].peer.addr_bytes);
	}
	if (pool == NULL || ports[0].ring == NULL || ports[1].ring == NULL)
		rte_exit(1, "rte_loop: no memory for the pool or the rings\n");
	for (long i = 0; i < mbufs; i++) {
		struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);

		if (mbuf == NULL)
			rte_exit(1, "rte_loop: the pool is empty\n");
		memset(rte_pktmbuf_append(mbuf, FRAME), 0, FRAME);
		rte_ring_sp_enqueue(ports[i % 2].ring, mbuf);
	}

	uint64_t end = rte_rdtsc() + rte_get_tsc_hz() * ms / 1000;

	loop(&ports[0], &ports[1], burst);
	do {
		uint64_t start = rte_rdtsc();
		unsigned moved = loop(&ports[0], &ports[1], burst);

		samples[count++] = (double)(rte_rdtsc() - start) / moved;
	} while (rte_rdtsc() < end && count < MAX_SAMPLES);

	/* Whoever loses or invents packets is no peer to compare with. */
	uint64_t received = ports[0].received + ports[1].received;
	uint64_t sent = ports[0].sent + ports[1].sent;
	unsigned inside = rte_ring_count(ports[0].ring) + rte_ring_count(ports[1].ring);

	if (received != sent || inside != mbufs)
		rte_exit(1, "rte_loop: packets were lost\n");
	print_samples(name, burst, samples, count, rte_get_tsc_hz());
	rte_eal_cleanup();
	return 0;
}
