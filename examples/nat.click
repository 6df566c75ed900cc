// A network behind one address: NAT for TCP, UDP, pings and the errors about
// them, and a port of the outside address that leads to a server inside.
//
//   linerate run examples/nat.click INSIDE=eth1 OUTSIDE=eth2 \
//     INSIDE_IP=198.18.0.1/24 OUTSIDE_IP=203.0.113.1/24 GATEWAY=203.0.113.2 \
//     SERVER=198.18.0.2 SERVER_PORT=80 PUBLIC_PORT=8080
//
//   host 198.18.0.2 ---+
//                      +--- INSIDE  this  OUTSIDE ---- 203.0.113.2 --- the world
//   host 198.18.0.3 ---+
//
// The addresses are its own, and the interfaces are better without addresses
// of the kernel. To try it, put each end in a network namespace:
//
//   ip netns add in;  ip link add eth1 type veth peer name e0 netns in
//   ip netns add out; ip link add eth2 type veth peer name e0 netns out
//   ip -n in  addr add 198.18.0.2/24 dev e0;  ip -n in  link set e0 up
//   ip -n out addr add 203.0.113.2/24 dev e0; ip -n out link set e0 up
//   ip link set eth1 up; ip link set eth2 up
//   ip -n in route add default via 198.18.0.1
//   ip netns exec in ping 203.0.113.2
//   ip netns exec in python3 -m http.server 80 &
//   ip netns exec out curl http://203.0.113.1:8080/
//
// Flows: `linerate call nat flows.tcp_table`, if it was started with --control. They
// end when they were silent for UDP_TIMEOUT seconds, closed connections after
// TCP_DONE_TIMEOUT; when there are too many, no sooner than after GUARANTEE.
// Packets in fragments are put together first, so long ones need larger
// buffers: --buffer-size 16K.

define($INSIDE inside, $OUTSIDE outside, $METHOD PCAP,
       $INSIDE_IP 198.18.0.1/24, $OUTSIDE_IP 203.0.113.1/24, $GATEWAY 203.0.113.2,
       $INSIDE_MTU 1500, $OUTSIDE_MTU 1500,
       $SERVER 198.18.0.2, $SERVER_PORT 80, $PUBLIC_PORT 8080,
       $UDP_TIMEOUT 300, $TCP_DONE_TIMEOUT 240, $GUARANTEE 5, $REAP_INTERVAL 900);

AddressInfo(inside $INSIDE_IP, outside $OUTSIDE_IP);

// An interface: what comes in as IP leaves by the output, and what is pushed
// in goes out with the address ARP says.
elementclass Interface { $device, $ip |
  FromDevice($device, METHOD $METHOD)
    -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  send :: Queue(1024) -> ToDevice($device);
  kind [0] -> ARPResponder($ip $device:eth) -> send;
  kind [1] -> [1] arp :: ARPQuerier($ip, $device:eth);
  kind [2] -> HostEtherFilter($device:eth) -> Strip(14) -> CheckIPHeader -> DropBroadcasts
    -> IPReassembler -> output;
  kind [3] -> Discard;
  input -> [0] arp -> send;
}

// What is for this machine: it answers pings, and has no ports.
elementclass Local { $ip |
  input -> kind :: IPClassifier(icmp, tcp or udp, -);
  kind [0] -> CheckICMPHeader -> ping :: ICMPPingResponder -> output;
  ping [1] -> Discard;
  kind [1] -> ICMPError($ip, unreachable, port) -> output;
  kind [2] -> ICMPError($ip, unreachable, protocol) -> output;
}

inside :: Interface($INSIDE, inside);
outside :: Interface($OUTSIDE, outside);

// Flows from inside get the outside address and a port no other flow has.
// Connections to the public port reach the server. Other packets from outside
// that belong to no flow end here.
flows :: IPRewriter(pattern outside:ip 1024-65535 - - 0 1,
                    pattern - - $SERVER $SERVER_PORT 1 0,
                    drop,
                    UDP_TIMEOUT $UDP_TIMEOUT, UDP_GUARANTEE $GUARANTEE,
                    TCP_DONE_TIMEOUT $TCP_DONE_TIMEOUT, TCP_GUARANTEE $GUARANTEE,
                    REAP_INTERVAL $REAP_INTERVAL);
pings :: ICMPPingRewriter(pattern outside:ip 0-65535 - - 0 1, drop);

// To the outside: by the gateway, unless it is a neighbour.
to_outside :: StaticIPLookup(outside:ipnet 0, 0/0 $GATEWAY 0)
  -> fragment_out :: IPFragmenter($OUTSIDE_MTU) -> outside;
to_inside :: IPFragmenter($INSIDE_MTU) -> inside;

// From inside.
inside -> from_inside :: StaticIPLookup(inside:ip 0, outside:ip 0, inside:bcast 1,
                                        inside:ipnet 2, 0/0 3);
from_inside [0] -> Local(inside) -> inside;
from_inside [1] -> Discard;
// Hosts of one network need no router between them.
from_inside [2] -> inside;
from_inside [3] -> ttl_out :: DecIPTTL
  -> new :: IPClassifier(tcp or udp, icmp type echo, icmp, -);
ttl_out [1] -> ICMPError(inside, timeexceeded) -> inside;
new [0] -> [0] flows;
new [1] -> [0] pings;
// Errors of hosts inside have the outside address.
new [2] -> errors_out :: ICMPRewriter(flows pings) -> StoreIPAddress(outside:ip, src) -> to_outside;
new [3] -> ICMPError(inside, unreachable, protocol) -> inside;

// From outside: only what is for the outside address.
outside -> from_outside :: IPClassifier(dst host outside:ip and tcp dst port $PUBLIC_PORT,
                                        dst host outside:ip and (tcp or udp),
                                        dst host outside:ip and icmp type echo,
                                        dst host outside:ip and icmp type echo-reply,
                                        dst host outside:ip and icmp,
                                        -);
from_outside [0] -> ttl_public :: DecIPTTL -> [1] flows;
from_outside [1] -> ttl_flows :: DecIPTTL -> [2] flows;
from_outside [2] -> Local(outside) -> to_outside;
from_outside [3] -> ttl_pings :: DecIPTTL -> [1] pings;
from_outside [4] -> DecIPTTL -> errors_in :: ICMPRewriter(flows pings) -> to_inside;
from_outside [5] -> Discard;
ttl_public [1] -> expired :: ICMPError(outside, timeexceeded) -> to_outside;
ttl_flows [1] -> expired;
ttl_pings [1] -> expired;

flows [0] -> to_outside;
pings [0] -> to_outside;
flows [1] -> to_inside;
pings [1] -> to_inside;

// What is too long for the next link was rewritten already, and so is, back
// again, the error about it.
fragment_out [1] -> ICMPError(inside, unreachable, needfrag, PMTU $OUTSIDE_MTU)
  -> ICMPRewriter(flows pings) -> inside;
to_inside [1] -> ICMPError(outside, unreachable, needfrag, PMTU $INSIDE_MTU)
  -> ICMPRewriter(flows pings) -> to_outside;
