/*
 * A program on libpcap between two interfaces, tuned as well as its interface allows.
 *
 *   pcap_forward --a IF --b IF [--do bridge|capture|inject] [--filter EXPRESSION] [--ms 10000]
 *                [--burst 64] [--buffer-mb 64] [--immediate 0|1] [--core N] [--both 0|1]
 *
 * It forwards from the first to the second, or counts what comes from the first, or sends to the
 * second a frame of 60 bytes. Whatever stands for libpcap is measured: interfaces are named as that
 * knows them.
 *
 * When it is ready, on every SIGUSR1 and at the end it prints a JSON line with what it has done since
 * its start, what it could not send, what was dropped before it, and the processor time it used. The
 * caller takes differences. It stops after the time given, or on SIGINT or SIGTERM.
 *
 * Only arriving packets are captured (a forwarder must not see its own), the snap length is that
 * of a full frame, and the handles do not block: the loop spins as the other forwarders do.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <pcap/pcap.h>

#include "common.h"

#define SNAP_LENGTH 2048

struct direction {
	pcap_t *from, *to;
	uint64_t forwarded, bytes, unsent;
};

static volatile sig_atomic_t stopped, asked;

static void on_signal(int number)
{
	if (number == SIGUSR1)
		asked = 1;
	else
		stopped = 1;
}

static double now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static pcap_t *open_interface(const char *name, int buffer, int immediate, const char *filter)
{
	char error[PCAP_ERRBUF_SIZE] = "";
	pcap_t *handle;
	struct bpf_program program;

	if (name == NULL)
		return NULL;
	handle = pcap_create(name, error);
	if (handle == NULL) {
		fprintf(stderr, "pcap_forward: %s: %s\n", name, error);
		exit(1);
	}
	pcap_set_snaplen(handle, SNAP_LENGTH);
	pcap_set_promisc(handle, 1);
	pcap_set_timeout(handle, 1);
	pcap_set_immediate_mode(handle, immediate);
	pcap_set_buffer_size(handle, buffer);
	if (pcap_activate(handle) < 0 || pcap_setdirection(handle, PCAP_D_IN) != 0) {
		fprintf(stderr, "pcap_forward: %s: %s\n", name, pcap_geterr(handle));
		exit(1);
	}
	if (filter != NULL) {
		if (pcap_compile(handle, &program, filter, 1, PCAP_NETMASK_UNKNOWN) != 0 ||
		    pcap_setfilter(handle, &program) != 0) {
			fprintf(stderr, "pcap_forward: %s: %s\n", filter, pcap_geterr(handle));
			exit(1);
		}
		pcap_freecode(&program);
	}
	if (pcap_setnonblock(handle, 1, error) != 0) {
		fprintf(stderr, "pcap_forward: %s: %s\n", name, error);
		exit(1);
	}
	return handle;
}

static void forward(unsigned char *user, const struct pcap_pkthdr *header,
		    const unsigned char *packet)
{
	struct direction *direction = (struct direction *)user;

	if (pcap_inject(direction->to, packet, header->caplen) == (int)header->caplen) {
		direction->forwarded++;
		direction->bytes += header->caplen;
	} else {
		direction->unsent++;
	}
}

static void count_one(unsigned char *user, const struct pcap_pkthdr *header,
		      const unsigned char *packet)
{
	struct direction *direction = (struct direction *)user;

	(void)packet;
	direction->forwarded++;
	direction->bytes += header->caplen;
}

static void send_burst(struct direction *direction, long burst)
{
	/* UDP from 10.0.0.1 to 10.0.0.2. */
	static const unsigned char frame[60] = {
		2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0,
		0, 0, 64, 17, 0x66, 0xcb, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 7, 0, 26,
	};

	for (long i = 0; i < burst; i++) {
		if (pcap_inject(direction->to, frame, sizeof(frame)) == sizeof(frame)) {
			direction->forwarded++;
			direction->bytes += sizeof(frame);
		} else {
			direction->unsent++;
		}
	}
}

static void report(const struct direction *directions, unsigned count, double start)
{
	uint64_t forwarded = 0, unsent = 0, dropped = 0, bytes = 0;

	for (unsigned i = 0; i < count; i++) {
		struct pcap_stat statistics = {0};

		if (directions[i].from != NULL)
			pcap_stats(directions[i].from, &statistics);
		forwarded += directions[i].forwarded;
		bytes += directions[i].bytes;
		unsent += directions[i].unsent;
		dropped += statistics.ps_drop;
	}
	printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"packets\": %llu, \"bytes\": %llu, "
	       "\"unsent\": %llu, \"dropped\": %llu}\n",
	       now(CLOCK_MONOTONIC) - start, now(CLOCK_PROCESS_CPUTIME_ID),
	       (unsigned long long)forwarded, (unsigned long long)bytes,
	       (unsigned long long)unsent, (unsigned long long)dropped);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const char *a = option(argc, argv, "a", NULL), *b = option(argc, argv, "b", NULL);
	const char *task = option(argc, argv, "do", "bridge");
	const char *filter = option(argc, argv, "filter", NULL);
	long ms = number(argc, argv, "ms", 10000, 1, 3600000);
	long burst = number(argc, argv, "burst", 64, 1, 65536);
	long buffer = number(argc, argv, "buffer-mb", 64, 1, 1024) << 20;
	long immediate = number(argc, argv, "immediate", 1, 0, 1);
	long core = number(argc, argv, "core", -1, 0, CPU_SETSIZE - 1);
	long both = number(argc, argv, "both", 0, 0, 1);
	struct sigaction action = {.sa_handler = on_signal};

	int captures = strcmp(task, "capture") == 0, injects = strcmp(task, "inject") == 0;

	if ((a == NULL && !injects) || (b == NULL && !captures)) {
		fprintf(stderr, "usage: pcap_forward --a IF --b IF [--do TASK] [--ms N] [--burst N]\n");
		return 2;
	}
	if (core >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(core, &set);
		if (sched_setaffinity(0, sizeof(set), &set) != 0) {
			perror("pcap_forward: sched_setaffinity");
			return 1;
		}
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);

	pcap_t *first = open_interface(injects ? NULL : a, buffer, immediate, filter);
	pcap_t *second = open_interface(captures ? NULL : b, buffer, immediate, filter);
	struct direction directions[2] = {{.from = first, .to = second},
					  {.from = second, .to = first}};
	unsigned count = both ? 2 : 1;
	pcap_handler handler = captures ? count_one : forward;
	double start = now(CLOCK_MONOTONIC), end = start + ms / 1e3;

	report(directions, count, start);
	for (unsigned round = 0; !stopped; round++) {
		/* The clock costs more than a packet. */
		if (round % 64 == 0 && now(CLOCK_MONOTONIC) >= end)
			break;
		if (asked) {
			asked = 0;
			report(directions, count, start);
		}
		if (injects) {
			send_burst(&directions[0], burst);
			continue;
		}
		for (unsigned i = 0; i < count; i++) {
			if (pcap_dispatch(directions[i].from, burst, handler,
					  (unsigned char *)&directions[i]) < 0) {
				pcap_perror(directions[i].from, "pcap_forward");
				return 1;
			}
		}
	}
	report(directions, count, start);
	if (first != NULL)
		pcap_close(first);
	if (second != NULL)
		pcap_close(second);
	return 0;
}
