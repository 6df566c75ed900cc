// Spreads the flows to one address over three servers, each flow always to the
// same one. The servers have the address too, at their loopback interface, so
// that packets reach them as they were sent and nothing has to be rewritten.
//
//   linerate run examples/load-balancer.click CLIENTS=eth1 SERVERS=eth2 \
//     CLIENTS_IP=198.18.0.1/24 SERVERS_IP=198.19.0.1/24 SERVICE=198.18.0.100 \
//     ONE=198.19.0.11 TWO=198.19.0.12 THREE=198.19.0.13
//
//                                          +--- 198.19.0.11 and SERVICE
//   clients --- CLIENTS this SERVERS ------+--- 198.19.0.12 and SERVICE
//                                          +--- 198.19.0.13 and SERVICE
//
// A server has this machine as gateway, and does not answer ARP queries for
// the service's address. In a network namespace that is
//
//   ip addr add 198.19.0.11/24 dev e0; ip addr add 198.18.0.100/32 dev lo
//   ip route add default via 198.19.0.1
//   sysctl net.ipv4.conf.e0.arp_ignore=1
//
// How many packets went where: `linerate call load-balancer balance.counts`, if it was
// started with --control. To take the second server out: `linerate call load-balancer
// balance.active "0 2"`, which moves its flows only.

define($CLIENTS clients, $SERVERS servers, $METHOD PCAP,
       $CLIENTS_IP 198.18.0.1/24, $SERVERS_IP 198.19.0.1/24, $SERVICE 198.18.0.100,
       $ONE 198.19.0.11, $TWO 198.19.0.12, $THREE 198.19.0.13, $SEED 0);

AddressInfo(clients $CLIENTS_IP, servers $SERVERS_IP);

// An interface: IP leaves by the output with its Ethernet header, and what is
// pushed in goes out with the address ARP says.
elementclass Interface { $device, $ip, $answers |
  FromDevice($device, METHOD $METHOD)
    -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  send :: Queue(1024) -> ToDevice($device);
  kind [0] -> ARPResponder($answers $device:eth) -> send;
  kind [1] -> [1] arp :: ARPQuerier($ip, $device:eth);
  kind [2] -> HostEtherFilter($device:eth, DROP_OWN true) -> CheckIPHeader(14) -> output;
  kind [3] -> Discard;
  input -> [0] arp -> send;
}

clients :: Interface($CLIENTS, clients, clients $SERVICE);
servers :: Interface($SERVERS, servers, servers);

// To the service. Fragments have no ports, so all of a packet would go to one
// server but maybe not to that of its flow: they are put together before.
clients -> to_service :: IPClassifier(dst host $SERVICE, -)
  -> IPReassembler
  -> balance :: FlowBalancer(SEED $SEED);
to_service [1] -> Discard;
balance [0] -> SetIPAddress($ONE) -> to_servers :: Strip(14) -> ttl :: DecIPTTL -> servers;
balance [1] -> SetIPAddress($TWO) -> to_servers;
balance [2] -> SetIPAddress($THREE) -> to_servers;
ttl [1] -> ICMPError(clients, timeexceeded) -> clients;

// Back: the service's answers to the clients.
servers -> answers :: IPClassifier(src host $SERVICE and dst net clients:ipnet, -)
  -> Strip(14) -> back :: DecIPTTL -> clients;
answers [1] -> Discard;
back [1] -> Discard;
