/*
 * libpcap's interpreter of filters: TSC cycles per packet.
 *
 *   pcap_filter --filter EXPRESSION --packets FILE --program FILE [--core N] [--ms 300]
 *
 * The expression is compiled as tcpdump does it for Ethernet; the program is written to a file, for
 * whoever wants to run the same. A sample is all packets of the capture, one after the other, as often
 * as there are a few thousand of them. How many packets are wanted is printed as the sum.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <time.h>
#include <x86intrin.h>

#include <pcap/pcap.h>

#include "common.h"

#define PACKETS 4096
#define ROUNDS 4

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static double samples[MAX_SAMPLES];
	static unsigned char *packets[PACKETS];
	static unsigned lengths[PACKETS];
	char error[PCAP_ERRBUF_SIZE];
	long ms = number(argc, argv, "ms", 300, 1, 60000);
	long core = number(argc, argv, "core", -1, 0, CPU_SETSIZE - 1);
	pcap_t *capture = pcap_open_offline(option(argc, argv, "packets", ""), error);
	FILE *written = fopen(option(argc, argv, "program", ""), "wb");
	struct bpf_program program;
	struct pcap_pkthdr *header;
	const unsigned char *data;
	unsigned count = 0, sampled = 0;

	if (capture == NULL || written == NULL) {
		fprintf(stderr, "pcap_filter: no packets, or no place for the program\n");
		return 2;
	}
	if (pcap_compile(capture, &program, option(argc, argv, "filter", ""), 1,
			 PCAP_NETMASK_UNKNOWN) != 0) {
		pcap_perror(capture, "pcap_filter");
		return 2;
	}
	if (fwrite(program.bf_insns, sizeof(*program.bf_insns), program.bf_len, written) !=
		    program.bf_len ||
	    fclose(written) != 0) {
		perror("pcap_filter");
		return 1;
	}
	while (count < PACKETS && pcap_next_ex(capture, &header, &data) == 1) {
		packets[count] = malloc(header->caplen + 1);
		memcpy(packets[count], data, header->caplen);
		lengths[count++] = header->caplen;
	}
	if (count == 0) {
		fprintf(stderr, "pcap_filter: an empty capture\n");
		return 2;
	}
	if (core >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(core, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}

	uint64_t wanted = 0;
	double begun = now(), end = begun + ms / 1e3;
	uint64_t cycles = __rdtsc();

	do {
		uint64_t start = __rdtsc();

		wanted = 0;
		for (unsigned round = 0; round < ROUNDS; round++)
			for (unsigned i = 0; i < count; i++)
				wanted += bpf_filter(program.bf_insns, packets[i], lengths[i],
						     lengths[i]) != 0;
		samples[sampled++] = (double)(__rdtsc() - start) / (count * ROUNDS);
	} while (sampled < MAX_SAMPLES && now() < end);
	double hz = (__rdtsc() - cycles) / (now() - begun);

	qsort(samples, sampled, sizeof(*samples), by_value);
	printf("{\"case\": \"filter\", \"burst\": 1, \"cycles_best\": %.4f, \"cycles_median\": %.4f, "
	       "\"samples\": %u, \"tsc_hz\": %.0f, \"sum\": %llu}\n",
	       samples[0], samples[sampled / 2], sampled, hz,
	       (unsigned long long)wanted / ROUNDS);
	return 0;
}
