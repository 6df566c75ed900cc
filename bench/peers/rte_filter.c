/*
 * DPDK's packet classification, rte_acl: TSC cycles per packet, in bursts.
 *
 *   rte_filter EAL-ARGUMENTS -- --rules FILE --packets FILE [--burst 256] [--ms 300]
 *
 * A line of rules has a source, its bits, a destination, its bits, the protocol and its mask, the
 * first and the last destination port, and 1 to allow or 2 to deny; the first rule that holds
 * decides. The packets are Ethernet frames of 64 bytes with IPv4 headers without options.
 *
 * A sample is one burst, copied into buffers of its own beforehand, as a receiving port leaves it:
 * finding the headers and classifying. The number of packets allowed is printed as the sum, for
 * whoever wants to compare it with his own.
 */
#include <rte_acl.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_memory.h>

#include "common.h"

#define MAX_BURST 256
#define PACKET 64
#define STRIDE 2112
/* The protocol's place in the frame; the other fields are counted from it. */
#define PROTOCOL (14 + 9)
#define FIELDS 5

RTE_ACL_RULE_DEF(filter_rule, FIELDS);

static const struct rte_acl_field_def fields[FIELDS] = {
	{ .type = RTE_ACL_FIELD_TYPE_BITMASK, .size = 1, .field_index = 0, .input_index = 0, .offset = 0 },
	{ .type = RTE_ACL_FIELD_TYPE_MASK, .size = 4, .field_index = 1, .input_index = 1, .offset = 3 },
	{ .type = RTE_ACL_FIELD_TYPE_MASK, .size = 4, .field_index = 2, .input_index = 2, .offset = 7 },
	{ .type = RTE_ACL_FIELD_TYPE_RANGE, .size = 2, .field_index = 3, .input_index = 3, .offset = 11 },
	{ .type = RTE_ACL_FIELD_TYPE_RANGE, .size = 2, .field_index = 4, .input_index = 3, .offset = 13 },
};

static struct rte_acl_ctx *fill(const char *path)
{
	struct rte_acl_param param = {
		.name = "filter",
		.socket_id = SOCKET_ID_ANY,
		.rule_size = RTE_ACL_RULE_SZ(FIELDS),
		.max_rule_num = 8192,
	};
	struct rte_acl_ctx *acl = rte_acl_create(&param);
	FILE *file = fopen(path, "r");
	unsigned source, source_bits, to, to_bits, protocol, mask, low, high, action;
	int priority = 8192;

	if (acl == NULL || file == NULL)
		rte_exit(2, "rte_filter: no rules\n");
	while (fscanf(file, "%u %u %u %u %u %u %u %u %u", &source, &source_bits, &to, &to_bits,
		      &protocol, &mask, &low, &high, &action) == 9) {
		struct filter_rule rule = {
			.data = { .userdata = action, .category_mask = 1, .priority = priority-- },
		};

		rule.field[0].value.u8 = protocol;
		rule.field[0].mask_range.u8 = mask;
		rule.field[1].value.u32 = source;
		rule.field[1].mask_range.u32 = source_bits;
		rule.field[2].value.u32 = to;
		rule.field[2].mask_range.u32 = to_bits;
		rule.field[3].value.u16 = 0;
		rule.field[3].mask_range.u16 = UINT16_MAX;
		rule.field[4].value.u16 = low;
		rule.field[4].mask_range.u16 = high;
		if (rte_acl_add_rules(acl, (struct rte_acl_rule *)&rule, 1) != 0)
			rte_exit(1, "rte_filter: a rule does not fit\n");
	}
	fclose(file);

	struct rte_acl_config config = { .num_categories = 1, .num_fields = FIELDS };

	memcpy(config.defs, fields, sizeof(fields));
	if (rte_acl_build(acl, &config) != 0)
		rte_exit(1, "rte_filter: rules cannot be built\n");
	return acl;
}

int main(int argc, char **argv)
{
	static double samples[MAX_SAMPLES];
	static uint8_t buffers[MAX_BURST * STRIDE] __rte_cache_aligned;
	unsigned count = 0;
	int used = rte_eal_init(argc, argv);

	if (used < 0)
		rte_exit(1, "rte_filter: EAL does not start\n");
	argc -= used;
	argv += used;

	unsigned burst = number(argc, argv, "burst", 256, 1, MAX_BURST);
	long ms = number(argc, argv, "ms", 300, 1, 60000);
	uint64_t begun = rte_rdtsc();
	struct rte_acl_ctx *acl = fill(option(argc, argv, "rules", ""));
	double seconds = (double)(rte_rdtsc() - begun) / rte_get_tsc_hz();
	FILE *file = fopen(option(argc, argv, "packets", ""), "rb");

	if (file == NULL || fseek(file, 0, SEEK_END) != 0)
		rte_exit(2, "rte_filter: no packets\n");
	size_t total = ftell(file) / PACKET;
	uint8_t *packets = malloc(total * PACKET + 1);

	rewind(file);
	if (packets == NULL || total == 0 || total % burst != 0 ||
	    fread(packets, PACKET, total, file) != total)
		rte_exit(2, "rte_filter: packets are to be a multiple of the burst\n");
	fclose(file);

	const uint8_t *places[MAX_BURST];
	uint32_t results[MAX_BURST];
	uint64_t allowed = 0, end = rte_rdtsc() + rte_get_tsc_hz() * ms / 1000;

	/* All packets once, and then until the time is over; the last samples are kept. */
	for (size_t at = 0, round = 0; round == 0 || rte_rdtsc() < end; at += burst) {
		if (at == total) {
			at = 0;
			round++;
		}
		for (unsigned i = 0; i < burst; i++)
			memcpy(buffers + i * STRIDE, packets + (at + i) * PACKET, PACKET);
		uint64_t start = rte_rdtsc();

		for (unsigned i = 0; i < burst; i++)
			places[i] = buffers + i * STRIDE + PROTOCOL;
		rte_acl_classify(acl, places, results, burst, 1);
		samples[count++ % MAX_SAMPLES] = (double)(rte_rdtsc() - start) / burst;
		for (unsigned i = 0; round == 0 && i < burst; i++)
			allowed += results[i] == 1;
	}
	if (count > MAX_SAMPLES)
		count = MAX_SAMPLES;
	qsort(samples, count, sizeof(*samples), by_value);
	printf("{\"case\": \"filter\", \"burst\": %u, \"cycles_best\": %.4f, \"cycles_median\": %.4f, "
	       "\"samples\": %u, \"tsc_hz\": %llu, \"sum\": %llu, \"insert_seconds\": %.4f}\n",
	       burst, samples[0], samples[count / 2], count, (unsigned long long)rte_get_tsc_hz(),
	       (unsigned long long)allowed, seconds);
	rte_eal_cleanup();
	return 0;
}
