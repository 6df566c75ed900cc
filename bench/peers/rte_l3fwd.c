/*
 * An IPv4 router on DPDK in the manner of its l3fwd example: one core, two ports, a table of
 * longest prefixes, the TTL decremented, both Ethernet addresses written.
 *
 *   rte_l3fwd EAL-ARGUMENTS -- --next MAC [--burst 32]
 *
 * 198.18.0.0/16 leaves by the first port and 198.19.0.0/16 by the second, to MAC. It runs until it
 * is killed.
 */
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_lpm.h>
#include <rte_mbuf.h>

#include "common.h"

#define PORTS 2
#define MAX_BURST 512
#define DESCRIPTORS 2048

static struct rte_ether_addr own[PORTS], next_hop;

static void start_port(uint16_t port, struct rte_mempool *pool)
{
	struct rte_eth_conf conf = {0};

	if (rte_eth_dev_configure(port, 1, 1, &conf) != 0 ||
	    rte_eth_rx_queue_setup(port, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL, pool) != 0 ||
	    rte_eth_tx_queue_setup(port, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL) != 0 ||
	    rte_eth_dev_start(port) != 0 || rte_eth_macaddr_get(port, &own[port]) != 0)
		rte_exit(1, "rte_l3fwd: port %u does not start\n", port);
	rte_eth_promiscuous_enable(port);
}

/* Rewrites a packet and says by which port it goes; PORTS if nowhere. */
static inline unsigned route(struct rte_mbuf *mbuf, const struct rte_lpm *table)
{
	struct rte_ether_hdr *ether = rte_pktmbuf_mtod(mbuf, struct rte_ether_hdr *);
	struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(ether + 1);
	uint32_t port;

	if (ether->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) ||
	    mbuf->data_len < sizeof(*ether) + sizeof(*ip) || ip->version_ihl < 0x45 ||
	    ip->time_to_live <= 1 ||
	    rte_lpm_lookup(table, rte_be_to_cpu_32(ip->dst_addr), &port) != 0)
		return PORTS;
	/* RFC 1624 for a TTL one less: the sum grows by 0x0100, with the carry. */
	uint32_t sum = ip->hdr_checksum + rte_cpu_to_be_16(0x0100);

	ip->hdr_checksum = sum + (sum >> 16);
	ip->time_to_live--;
	ether->src_addr = own[port];
	ether->dst_addr = next_hop;
	return port;
}

int main(int argc, char **argv)
{
	struct rte_mbuf *received[MAX_BURST], *sent[PORTS][MAX_BURST];
	int used = rte_eal_init(argc, argv);

	if (used < 0)
		rte_exit(1, "rte_l3fwd: EAL does not start\n");
	argc -= used;
	argv += used;

	long burst = number(argc, argv, "burst", 32, 1, MAX_BURST);
	const char *mac = option(argc, argv, "next", NULL);

	if (mac == NULL || rte_ether_unformat_addr(mac, &next_hop) != 0)
		rte_exit(2, "rte_l3fwd: --next MAC is missing\n");
	if (rte_eth_dev_count_avail() != PORTS)
		rte_exit(2, "rte_l3fwd: two ports are needed\n");

	struct rte_lpm_config size = {.max_rules = 1024, .number_tbl8s = 256};
	struct rte_lpm *table = rte_lpm_create("routes", SOCKET_ID_ANY, &size);
	struct rte_mempool *pool = rte_pktmbuf_pool_create("packets", 16383, 256, 0,
							   RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);

	if (table == NULL || pool == NULL || rte_lpm_add(table, RTE_IPV4(198, 18, 0, 0), 16, 0) != 0 ||
	    rte_lpm_add(table, RTE_IPV4(198, 19, 0, 0), 16, 1) != 0)
		rte_exit(1, "rte_l3fwd: no memory for packets or routes\n");
	for (uint16_t port = 0; port < PORTS; port++)
		start_port(port, pool);
	for (;;) {
		for (uint16_t from = 0; from < PORTS; from++) {
			uint16_t count = rte_eth_rx_burst(from, 0, received, burst);
			uint16_t counts[PORTS] = {0};

			for (uint16_t i = 0; i < count; i++) {
				unsigned port = route(received[i], table);

				if (port == PORTS)
					rte_pktmbuf_free(received[i]);
				else
					sent[port][counts[port]++] = received[i];
			}
			for (uint16_t port = 0; port < PORTS; port++) {
				uint16_t done = counts[port] == 0
							? 0
							: rte_eth_tx_burst(port, 0, sent[port],
									   counts[port]);

				rte_pktmbuf_free_bulk(&sent[port][done], counts[port] - done);
			}
		}
	}
}
