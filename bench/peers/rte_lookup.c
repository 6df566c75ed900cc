/*
 * DPDK's longest-prefix match, rte_fib and rte_fib6: TSC cycles per address, in bursts.
 *
 *   rte_lookup EAL-ARGUMENTS -- --case ipv4|ipv6 --routes FILE --addresses FILE
 *              [--vector 0|1] [--width 2|4] [--burst 256] [--ms 300]
 *
 * A route in the file is its address, then 32 bits of length, then 32 bits of next hop; an address
 * is 32 bits of this machine for IPv4 and 16 bytes for IPv6. Next hop 0 stands for no route.
 *
 * The structure is DIR-24-8 for IPv4 and the trie of 24-8-8... for IPv6, with next hops of two or
 * four bytes, looked up by AVX-512 where that is wanted and there (DPDK itself must be told to use
 * it: --force-max-simd-bitwidth=512). Routes are to be in order, each behind those that contain it:
 * rte_fib of DPDK 22.11 gives wrong answers otherwise. A sample is a block of addresses, the next of which follows where it ended. The sum
 * of all answers is printed, for whoever wants to compare it with his own.
 */
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_memory.h>

#include "common.h"

#define MAX_BURST 256
#define BLOCK (1 << 16) /* addresses per sample */

struct route4 {
	uint32_t address, length, hop;
};

struct route6 {
	uint8_t address[16];
	uint32_t length, hop;
};

static void *contents(const char *path, size_t each, size_t *count)
{
	FILE *file = fopen(path, "rb");

	if (file == NULL || fseek(file, 0, SEEK_END) != 0)
		rte_exit(2, "rte_lookup: cannot read %s\n", path);
	long size = ftell(file);
	void *data = malloc(size + 1);

	rewind(file);
	if (data == NULL || fread(data, 1, size, file) != (size_t)size)
		rte_exit(2, "rte_lookup: cannot read %s\n", path);
	fclose(file);
	*count = size / each;
	return data;
}

static struct rte_fib *fill4(const char *path, int vector, int width)
{
	size_t count;
	struct route4 *routes = contents(path, sizeof(*routes), &count);
	struct rte_fib_conf conf = {
		.type = RTE_FIB_DIR24_8,
		.max_routes = count + 1,
		.dir24_8 = {
			.nh_sz = width == 2 ? RTE_FIB_DIR24_8_2B : RTE_FIB_DIR24_8_4B,
			.num_tbl8 = width == 2 ? 32767 : 65536,
		},
	};
	struct rte_fib *fib = rte_fib_create("ipv4", SOCKET_ID_ANY, &conf);

	if (fib == NULL)
		rte_exit(1, "rte_lookup: no table: %s\n", rte_strerror(rte_errno));
	for (size_t i = 0; i < count; i++)
		if (rte_fib_add(fib, routes[i].address, routes[i].length, routes[i].hop) != 0)
			rte_exit(1, "rte_lookup: route %zu does not fit\n", i);
	if (!vector || rte_fib_select_lookup(fib, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512) != 0)
		rte_fib_select_lookup(fib, RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO);
	free(routes);
	return fib;
}

static struct rte_fib6 *fill6(const char *path, int vector, int width)
{
	size_t count;
	struct route6 *routes = contents(path, sizeof(*routes), &count);
	uint32_t groups = 1;

	/* A group for each byte behind the third is set aside for every route. */
	for (size_t i = 0; i < count; i++)
		if (routes[i].length > 24)
			groups += (routes[i].length - 24 + 7) / 8;
	struct rte_fib6_conf conf = {
		.type = RTE_FIB6_TRIE,
		.max_routes = count + 1,
		.trie = {
			.nh_sz = width == 2 ? RTE_FIB6_TRIE_2B : RTE_FIB6_TRIE_4B,
			.num_tbl8 = width == 2 ? RTE_MIN(groups, 32767u) : groups,
		},
	};
	struct rte_fib6 *fib = rte_fib6_create("ipv6", SOCKET_ID_ANY, &conf);

	if (fib == NULL)
		rte_exit(1, "rte_lookup: no table: %s\n", rte_strerror(rte_errno));
	for (size_t i = 0; i < count; i++)
		if (rte_fib6_add(fib, routes[i].address, routes[i].length, routes[i].hop) != 0)
			rte_exit(1, "rte_lookup: route %zu does not fit\n", i);
	if (!vector || rte_fib6_select_lookup(fib, RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512) != 0)
		rte_fib6_select_lookup(fib, RTE_FIB6_LOOKUP_TRIE_SCALAR);
	free(routes);
	return fib;
}

int main(int argc, char **argv)
{
	static double samples[MAX_SAMPLES];
	unsigned count = 0;
	int used = rte_eal_init(argc, argv);

	if (used < 0)
		rte_exit(1, "rte_lookup: EAL does not start\n");
	argc -= used;
	argv += used;

	const char *name = option(argc, argv, "case", "ipv4");
	const char *routes = option(argc, argv, "routes", "");
	const char *file = option(argc, argv, "addresses", "");
	unsigned burst = number(argc, argv, "burst", 256, 1, MAX_BURST);
	int vector = number(argc, argv, "vector", 0, 0, 1);
	int width = number(argc, argv, "width", 4, 2, 4);
	long ms = number(argc, argv, "ms", 300, 1, 60000);
	int six = strcmp(name, "ipv6") == 0;
	uint64_t hops[MAX_BURST], sum = 0, begun = rte_rdtsc();
	struct rte_fib6 *fib6 = six ? fill6(routes, vector, width) : NULL;
	struct rte_fib *fib4 = six ? NULL : fill4(routes, vector, width);
	double seconds = (double)(rte_rdtsc() - begun) / rte_get_tsc_hz();
	size_t each = six ? 16 : 4, total, at = 0;
	uint8_t *addresses = contents(file, each, &total);

	if (total % BLOCK != 0 || total == 0 || BLOCK % burst != 0)
		rte_exit(2, "rte_lookup: addresses are to be a multiple of %d\n", BLOCK);
	for (size_t i = 0; i < total; i += burst) {
		if (six)
			rte_fib6_lookup_bulk(fib6, (void *)(addresses + i * each), hops, burst);
		else
			rte_fib_lookup_bulk(fib4, (void *)(addresses + i * each), hops, burst);
		for (unsigned k = 0; k < burst; k++)
			sum += hops[k];
	}

	uint64_t end = rte_rdtsc() + rte_get_tsc_hz() * ms / 1000;

	do {
		uint64_t start = rte_rdtsc();

		for (unsigned i = 0; i < BLOCK; i += burst) {
			void *from = addresses + (at + i) * each;

			if (six)
				rte_fib6_lookup_bulk(fib6, from, hops, burst);
			else
				rte_fib_lookup_bulk(fib4, from, hops, burst);
		}
		samples[count++] = (double)(rte_rdtsc() - start) / BLOCK;
		at = (at + BLOCK) % total;
	} while (rte_rdtsc() < end && count < MAX_SAMPLES);

	qsort(samples, count, sizeof(*samples), by_value);
	printf("{\"case\": \"%s\", \"burst\": %u, \"cycles_best\": %.4f, \"cycles_median\": %.4f, "
	       "\"samples\": %u, \"tsc_hz\": %llu, \"sum\": %llu, \"insert_seconds\": %.4f}\n",
	       name, burst, samples[0], samples[count / 2], count,
	       (unsigned long long)rte_get_tsc_hz(), (unsigned long long)sum, seconds);
	rte_eal_cleanup();
	return 0;
}
