/*
 * A process of a PACKET_FANOUT group that counts what arrives at an interface, by a ring that the
 * kernel fills in blocks (TPACKET_V3).
 *
 *   packet_fanout --if IF [--warm 200] [--ms 300] [--group 1] [--core N]
 *
 * It counts for the milliseconds of --warm and then of --ms, of which it prints a JSON line: packets,
 * time, the processor time it used, and what the kernel dropped because the ring was full. It looks
 * at the blocks' own counts alone and at no packet, and spins between blocks.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "common.h"

#define BLOCK_SIZE (1 << 18)
#define BLOCKS 64
#define FRAME_SIZE 2048
#define RETIRE_MS 1
#define SPINS 64 /* looks at a block between looks at the time */

static double now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void fail(const char *what)
{
	fprintf(stderr, "packet_fanout: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void set(int socket, int option, const void *value, socklen_t size, const char *what)
{
	if (setsockopt(socket, SOL_PACKET, option, value, size) != 0)
		fail(what);
}

static unsigned char *ring;
static unsigned at;

/* Counts packets until a time. */
static uint64_t count_until(double end)
{
	uint64_t packets = 0;

	for (;;) {
		struct tpacket_block_desc *block = (void *)(ring + (size_t)at * BLOCK_SIZE);
		uint32_t *status = &block->hdr.bh1.block_status;

		for (unsigned i = 0; !(__atomic_load_n(status, __ATOMIC_ACQUIRE) & TP_STATUS_USER);
		     i++)
			if (i % SPINS == 0 && now(CLOCK_MONOTONIC) >= end)
				return packets;
		packets += block->hdr.bh1.num_pkts;
		__atomic_store_n(status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		at = (at + 1) % BLOCKS;
		if (now(CLOCK_MONOTONIC) >= end)
			return packets;
	}
}

int main(int argc, char **argv)
{
	const char *interface = option(argc, argv, "if", NULL);
	long warm = number(argc, argv, "warm", 200, 0, 60000);
	long ms = number(argc, argv, "ms", 300, 1, 60000);
	long core = number(argc, argv, "core", -1, 0, CPU_SETSIZE - 1);
	int fanout = number(argc, argv, "group", 1, 0, 65535) | PACKET_FANOUT_HASH << 16;

	if (interface == NULL) {
		fprintf(stderr, "usage: packet_fanout --if IF [--ms N]\n");
		return 2;
	}
	if (core >= 0) {
		cpu_set_t cores;

		CPU_ZERO(&cores);
		CPU_SET(core, &cores);
		if (sched_setaffinity(0, sizeof(cores), &cores) != 0)
			fail("sched_setaffinity");
	}

	int version = TPACKET_V3;
	int packets = socket(AF_PACKET, SOCK_RAW, 0);
	struct tpacket_req3 request = {
		.tp_block_size = BLOCK_SIZE,
		.tp_block_nr = BLOCKS,
		.tp_frame_size = FRAME_SIZE,
		.tp_frame_nr = BLOCK_SIZE / FRAME_SIZE * BLOCKS,
		.tp_retire_blk_tov = RETIRE_MS,
	};
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = if_nametoindex(interface),
	};

	if (packets < 0)
		fail("socket");
	if (address.sll_ifindex == 0)
		fail(interface);
	set(packets, PACKET_VERSION, &version, sizeof(version), "PACKET_VERSION");
	set(packets, PACKET_RX_RING, &request, sizeof(request), "PACKET_RX_RING");
	ring = mmap(NULL, (size_t)BLOCK_SIZE * BLOCKS, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_POPULATE, packets, 0);
	if (ring == MAP_FAILED)
		fail("mmap");
	if (bind(packets, (struct sockaddr *)&address, sizeof(address)) != 0)
		fail("bind");
	set(packets, PACKET_FANOUT, &fanout, sizeof(fanout), "PACKET_FANOUT");

	count_until(now(CLOCK_MONOTONIC) + warm / 1e3);

	struct tpacket_stats_v3 statistics = {0};
	socklen_t size = sizeof(statistics);
	/* Reading them sets them to zero. */
	getsockopt(packets, SOL_PACKET, PACKET_STATISTICS, &statistics, &size);

	double start = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
	uint64_t counted = count_until(start + ms / 1e3);
	double seconds = now(CLOCK_MONOTONIC) - start;

	used = now(CLOCK_PROCESS_CPUTIME_ID) - used;
	if (getsockopt(packets, SOL_PACKET, PACKET_STATISTICS, &statistics, &size) != 0)
		fail("PACKET_STATISTICS");
	printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"packets\": %llu, \"dropped\": %u}\n",
	       seconds, used, (unsigned long long)counted, statistics.tp_drops);
	return 0;
}
