/*
 * DPDK's rte_hash: TSC cycles per key looked up in bursts, and per key added.
 *
 *   rte_exact EAL-ARGUMENTS -- [--keys 65536] [--burst 32] [--ms 300]
 *
 * Keys of 16 bytes, as an IPv4 5-tuple with its VLAN; every key looked up is in the table, in random
 * order. Our program makes the same keys in the same order. Eight bytes of data are stored with each
 * key and are part of the answer, as rte_hash_lookup_bulk_data gives them.
 *
 * The table is made for the number of keys, or for twice as many when they do not fit; its hash
 * function is the CRC instruction of the processor.
 */
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>

#include "common.h"

#define MAX_BURST RTE_HASH_LOOKUP_BULK_MAX
#define BLOCK (1 << 15) /* lookups per sample */
#define FEWEST_QUERIES (1 << 14) /* keys looked up in turn, when the table has fewer */

struct key {
	uint64_t words[2];
};

/* SplitMix64. */
static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Keys and data go into a new table of that size; the cycles it took, or 0 when they do not fit. */
static uint64_t fill(struct rte_hash **table, const struct key *keys, long count, uint32_t entries)
{
	struct rte_hash_parameters parameters = {
		.name = "exact",
		.entries = entries,
		.key_len = sizeof(struct key),
		.hash_func = rte_hash_crc,
		.socket_id = SOCKET_ID_ANY,
	};

	*table = rte_hash_create(&parameters);
	if (*table == NULL)
		rte_exit(1, "rte_exact: no memory for a table of %u\n", entries);
	uint64_t start = rte_rdtsc();
	for (long i = 0; i < count; i++) {
		if (rte_hash_add_key_data(*table, &keys[i], (void *)(uintptr_t)i) != 0) {
			rte_hash_free(*table);
			return 0;
		}
	}
	return rte_rdtsc() - start;
}

int main(int argc, char **argv)
{
	static double samples[MAX_SAMPLES];
	struct rte_hash *table;
	unsigned count = 0;
	int used = rte_eal_init(argc, argv);

	if (used < 0)
		rte_exit(1, "rte_exact: EAL does not start\n");
	argc -= used;
	argv += used;

	long size = number(argc, argv, "keys", 65536, 1, 1 << 26);
	unsigned burst = number(argc, argv, "burst", 32, 1, MAX_BURST);
	long ms = number(argc, argv, "ms", 300, 1, 60000);
	struct key *keys = malloc(size * sizeof(struct key));
	long asked = RTE_MAX(size, FEWEST_QUERIES);
	struct key *queries = malloc(asked * sizeof(struct key));
	uint64_t state = 1;

	if (keys == NULL || queries == NULL)
		rte_exit(1, "rte_exact: no memory for the keys\n");
	for (long i = 0; i < size; i++)
		for (int word = 0; word < 2; word++)
			keys[i].words[word] = next(&state);
	for (long i = 0; i < asked; i++)
		queries[i] = keys[next(&state) % size];

	uint32_t entries = RTE_MAX(size, 8);
	uint64_t adding = fill(&table, keys, size, entries);
	if (adding == 0)
		adding = fill(&table, keys, size, entries *= 2);
	if (adding == 0)
		rte_exit(1, "rte_exact: %ld keys do not fit\n", size);

	uint64_t end = rte_rdtsc() + rte_get_tsc_hz() * ms / 1000;
	unsigned rounds = BLOCK / burst;
	long at = 0;
	uint64_t sum = 0;

	do {
		uint64_t start = rte_rdtsc();
		for (unsigned round = 0; round < rounds; round++) {
			const void *pointers[MAX_BURST];
			void *data[MAX_BURST];
			uint64_t hits;

			if (at + burst > asked)
				at = 0;
			for (unsigned i = 0; i < burst; i++)
				pointers[i] = &queries[at + i];
			at += burst;
			int found = rte_hash_lookup_bulk_data(table, pointers, burst, &hits, data);
			if (found != (int)burst)
				rte_exit(1, "rte_exact: %d of %u found\n", found, burst);
			for (unsigned i = 0; i < burst; i++)
				sum += (uintptr_t)data[i];
		}
		uint64_t cycles = rte_rdtsc() - start;

		samples[count++] = (double)cycles / (rounds * burst);
	} while (rte_rdtsc() < end && count < MAX_SAMPLES);
	if (sum == 0 && size > 1)
		rte_exit(1, "rte_exact: no data\n");

	qsort(samples, count, sizeof(*samples), by_value);
	printf("{\"case\":\"exact-match\",\"burst\":%u,\"cycles_best\":%.3f,\"cycles_median\":%.3f,"
	       "\"samples\":%u,\"tsc_hz\":%llu,\"keys\":%ld,\"entries\":%u,"
	       "\"add_cycles\":%.1f}\n",
	       burst, samples[0], samples[count / 2], count, (unsigned long long)rte_get_tsc_hz(), size, entries,
	       (double)adding / size);
	rte_eal_cleanup();
	return 0;
}
