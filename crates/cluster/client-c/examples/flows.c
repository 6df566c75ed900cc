/* Counts packets and bytes of each connection, in both directions, and prints the busiest now and then:
 *   cc flows.c $(pkg-config --cflags --libs linerate-client) -o flows
 *   ./flows [-t TOP] [-i SECONDS] [-e SECONDS] [-m FLOWS] SOCKET NAME
 *
 * -t  flows printed, 10
 * -i  seconds between two tables, 1; 0 for the last one alone
 * -e  seconds after which a flow without packets is forgotten, 60
 * -m  most flows at a time, 1000000: others are counted together
 * It ends with its server, or by Ctrl-C. */
#include <arpa/inet.h>
#include <linerate_client.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Who talks to whom: the lesser address and port first, so that both directions are one flow. */
struct key {
	uint8_t address[2][16];
	uint16_t port[2]; /* as on the wire; 0 where there is none, or it is in another fragment */
	uint8_t protocol, version;
	uint8_t unused[2]; /* zero: keys are compared as bytes */
};

struct flow {
	struct key key; /* of version 0 where there is none */
	uint64_t packets[2], bytes[2];
	time_t last;
};

/* Open addressing: a flow is at its hash or in the next places behind, without a gap. */
static struct flow *table;
static size_t places, flows, most = 1000000;
static uint64_t others, forgotten, not_ip;
static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

/* FNV-1a, whose lower bits are mixed once more. */
static size_t hash(const struct key *key)
{
	const uint8_t *bytes = (const uint8_t *)key;
	uint64_t value = 0xcbf29ce484222325;
	for (size_t at = 0; at < sizeof *key; at++)
		value = (value ^ bytes[at]) * 0x100000001b3;
	return (value ^ value >> 32) & (places - 1);
}

/* Whose flow a packet is; returns which of the two has sent it, or -1 where it is not of IP. */
static int key_of(const uint8_t *packet, size_t length, struct key *key)
{
	size_t at = 12, ports;
	int source = 0, first = 1;
	memset(key, 0, sizeof *key);
	while (at + 6 <= length && (!memcmp(packet + at, "\x81\x00", 2) || !memcmp(packet + at, "\x88\xa8", 2)))
		at += 4; /* a tag of a VLAN */
	if (at + 2 + 20 > length)
		return -1;
	unsigned type = packet[at] << 8 | packet[at + 1];
	const uint8_t *ip = packet + at + 2;
	size_t left = length - at - 2;
	if (type == 0x0800 && ip[0] >> 4 == 4) {
		key->version = 4;
		key->protocol = ip[9];
		memcpy(key->address[0], ip + 12, 4);
		memcpy(key->address[1], ip + 16, 4);
		ports = (ip[0] & 15) * 4;
		first = ((ip[6] & 31) << 8 | ip[7]) == 0;
	} else if (type == 0x86dd && left >= 40 && ip[0] >> 4 == 6) {
		key->version = 6;
		key->protocol = ip[6]; /* what an extension header has behind it is not looked for */
		memcpy(key->address[0], ip + 8, 16);
		memcpy(key->address[1], ip + 24, 16);
		ports = 40;
	} else {
		return -1;
	}
	int has_ports = key->protocol == 6 || key->protocol == 17 || key->protocol == 132;
	if (has_ports && first && ports + 4 <= left) {
		memcpy(&key->port[0], ip + ports, 2);
		memcpy(&key->port[1], ip + ports + 2, 2);
	}
	int order = memcmp(key->address[0], key->address[1], 16);
	if (order > 0 || (order == 0 && ntohs(key->port[0]) > ntohs(key->port[1]))) {
		uint8_t address[16];
		uint16_t port = key->port[0];
		memcpy(address, key->address[0], 16);
		memcpy(key->address[0], key->address[1], 16);
		memcpy(key->address[1], address, 16);
		key->port[0] = key->port[1];
		key->port[1] = port;
		source = 1;
	}
	return source;
}

static void count(const lr_packet *packet, time_t now)
{
	struct key key;
	int source = key_of(packet->data, packet->length, &key);
	if (source < 0) {
		not_ip++;
		return;
	}
	size_t at = hash(&key);
	while (table[at].key.version && memcmp(&table[at].key, &key, sizeof key))
		at = (at + 1) & (places - 1);
	if (!table[at].key.version) {
		if (flows >= most) {
			others++;
			return;
		}
		flows++;
		table[at].key = key;
	}
	table[at].packets[source]++;
	table[at].bytes[source] += packet->length;
	table[at].last = now;
}

/* Forgets a flow and closes the gap: those behind it that would not be found any more move up. */
static void forget(size_t gap)
{
	flows--;
	forgotten++;
	for (size_t at = (gap + 1) & (places - 1); table[at].key.version; at = (at + 1) & (places - 1)) {
		size_t wants = hash(&table[at].key);
		if (((at - wants) & (places - 1)) >= ((at - gap) & (places - 1))) {
			table[gap] = table[at];
			gap = at;
		}
	}
	memset(&table[gap], 0, sizeof table[gap]);
}

static void expire(time_t before)
{
	for (size_t at = 0; at < places;)
		if (table[at].key.version && table[at].last < before)
			forget(at); /* what has moved here is looked at next */
		else
			at++;
}

static uint64_t bytes_of(const struct flow *flow)
{
	return flow->bytes[0] + flow->bytes[1];
}

static int busier(const void *one, const void *other)
{
	uint64_t left = bytes_of(*(struct flow *const *)one), right = bytes_of(*(struct flow *const *)other);
	return (left < right) - (left > right);
}

static void print(size_t top, const lr_consumer *consumer)
{
	struct flow **order = malloc((flows + 1) * sizeof *order);
	size_t number = 0;
	lr_figures figures;
	if (!order)
		return;
	for (size_t at = 0; at < places; at++)
		if (table[at].key.version)
			order[number++] = &table[at];
	qsort(order, number, sizeof *order, busier);
	for (size_t at = 0; at < number && at < top; at++) {
		const struct flow *flow = order[at];
		int family = flow->key.version == 4 ? AF_INET : AF_INET6;
		char text[2][INET6_ADDRSTRLEN];
		for (int side = 0; side < 2; side++)
			inet_ntop(family, flow->key.address[side], text[side], sizeof text[side]);
		printf("%s %u, %s %u, protocol %u: %llu packets %llu bytes, back %llu packets %llu bytes\n",
		       text[0], ntohs(flow->key.port[0]), text[1], ntohs(flow->key.port[1]),
		       flow->key.protocol, (unsigned long long)flow->packets[0],
		       (unsigned long long)flow->bytes[0], (unsigned long long)flow->packets[1],
		       (unsigned long long)flow->bytes[1]);
	}
	free(order);
	lr_read_figures(consumer, &figures);
	printf("%zu flows, %llu forgotten; %llu packets of others, %llu not of IP, %llu lost\n", flows,
	       (unsigned long long)forgotten, (unsigned long long)others, (unsigned long long)not_ip,
	       (unsigned long long)figures.lost_full);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	size_t top = 10;
	int interval = 1, idle = 60, option, received = 0;
	char error[200];
	lr_packet packets[LR_BURST];
	struct sigaction action = {0};

	while ((option = getopt(argc, argv, "t:i:e:m:")) != -1)
		switch (option) {
		case 't': top = strtoul(optarg, NULL, 10); break;
		case 'i': interval = atoi(optarg); break;
		case 'e': idle = atoi(optarg); break;
		case 'm': most = strtoul(optarg, NULL, 10); break;
		default: return 2;
		}
	if (argc - optind != 2 || !most || most > (size_t)1 << 30) {
		fprintf(stderr, "flows [-t TOP] [-i SECONDS] [-e SECONDS] [-m FLOWS] SOCKET NAME\n");
		return 2;
	}
	for (places = 2; places / 2 < most;)
		places *= 2;
	table = calloc(places, sizeof *table);
	lr_consumer *consumer = table ? lr_attach(argv[optind], argv[optind + 1], error, sizeof error) : NULL;
	if (!consumer) {
		fprintf(stderr, "flows: %s\n", table ? error : "no memory for so many flows");
		return 1;
	}
	action.sa_handler = stop;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	time_t now = time(NULL), printed = now, expired = now;
	while (!stopped && received >= 0) {
		received = lr_receive(consumer, packets);
		for (int at = 0; at < received; at++)
			count(&packets[at], now);
		if (received == 0)
			received = lr_wait(consumer, 100);
		now = time(NULL);
		if (interval > 0 && now - printed >= interval) {
			print(top, consumer);
			printed = now;
		}
		if (now - expired >= idle) {
			expire(now - idle);
			expired = now;
		}
	}
	if (received < 0)
		fprintf(stderr, "flows: %s\n", lr_error(consumer));
	print(top, consumer);
	lr_detach(consumer);
	free(table);
	return 0;
}
