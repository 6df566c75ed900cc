// The classic IP router with two interfaces: the configuration Click is known
// for, with what is the same for both interfaces in a compound.
//
//   linerate run examples/router.click LEFT=eth1 RIGHT=eth2 \
//     LEFT_IP=198.18.0.1/24 RIGHT_IP=198.19.0.1/24
//
// and METHOD=XDP where it is to take the packets away from the kernel. To try
// it, join each interface to a network namespace that has the other addresses:
//
//   ip netns add a; ip link add eth1 type veth peer name a0 netns a
//   ip netns exec a sh -c 'ip addr add 198.18.0.2/24 dev a0; ip link set a0 up;
//     ip route add default via 198.18.0.1'; ip link set eth1 up
//   (the same for b with eth2 and 198.19.0.2), then
//   ip netns exec a traceroute 198.19.0.2
//
// The addresses are the router's own, and the interfaces are better without
// addresses of the kernel, which would answer too. Routes can be changed while
// it runs: linerate call, or a control socket, `routes.add`, `routes.remove`.

define($LEFT left, $RIGHT right, $LEFT_IP 198.18.0.1/24, $RIGHT_IP 198.19.0.1/24,
       $LEFT_MTU 1500, $RIGHT_MTU 1500, $METHOD PCAP,
       $ARP_TIMEOUT 300, $ARP_POLL 60, $PARTS_TIMEOUT 30);

AddressInfo(left $LEFT_IP, right $RIGHT_IP);

// An interface: what comes in as IP leaves by the output, and what is pushed
// in goes out with the address ARP says. Who has answered is asked again after
// ARP_POLL seconds and not known any more after ARP_TIMEOUT. Output 1: what was
// for a neighbour that does not answer.
elementclass Interface { $device, $ip |
  FromDevice($device, METHOD $METHOD)
    -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  send :: Queue(1024) -> ToDevice($device);
  kind [0] -> ARPResponder($ip $device:eth) -> send;
  kind [1] -> [1] arp :: ARPQuerier($ip, $device:eth, TIMEOUT $ARP_TIMEOUT, POLL_TIMEOUT $ARP_POLL);
  kind [2] -> HostEtherFilter($device:eth) -> Strip(14) -> CheckIPHeader -> honest
    :: IPFilter(deny src net 0.0.0.0/8 or 127.0.0.0/8 or 224.0.0.0/4, // no host has these,
                deny src host 255.255.255.255,
                deny src host left:ip or right:ip,                    // and these are its own
                allow all) -> output;
  kind [3] -> Discard;
  input -> [0] arp -> send;
  arp [1] -> send;
  arp [2] -> [1] output;
}

// What a router does to a packet it forwards, and what it says when it cannot.
// Output 0: packets to send; output 1: ICMP errors, to be routed themselves.
elementclass Forward { $color, $ip, $mtu |
  input
    -> DropBroadcasts
    -> redirect :: PaintTee($color)
    -> options :: IPGWOptions($ip)
    -> FixIPSrc($ip)
    -> ttl :: DecIPTTL
    -> fragment :: IPFragmenter($mtu)
    -> output;
  redirect [1] -> ICMPError($ip, redirect, host) -> errors :: Null -> [1] output;
  options [1] -> ICMPError($ip, parameterproblem) -> errors;
  ttl [1] -> ICMPError($ip, timeexceeded) -> errors;
  fragment [1] -> ICMPError($ip, unreachable, needfrag, PMTU $mtu) -> errors;
}

left :: Interface($LEFT, left);
right :: Interface($RIGHT, right);

// 0: for this router; 1, 2: for the networks at its interfaces; 3: for nowhere;
// 4: for all hosts of a network or a group, with which it has nothing to do, or
// for what is no address.
routes :: RadixIPLookup(left:ip 0, left:bcast 4, right:ip 0, right:bcast 4,
                        0.0.0.0/8 4, 127.0.0.0/8 4, 224.0.0.0/4 4, 255.255.255.255/32 4,
                        left:ipnet 1, right:ipnet 2, 0/0 3);

left -> Paint(1) -> routes;
right -> Paint(2) -> routes;
left [1] -> ICMPError(left, unreachable, host) -> routes;
right [1] -> ICMPError(right, unreachable, host) -> routes;

// What is for the router itself: it answers pings, and has no ports.
routes [0] -> parts :: IPReassembler(TIMEOUT $PARTS_TIMEOUT)
  -> for_us :: IPClassifier(icmp, tcp or udp, -);
parts [1] -> ICMPError(left, timeexceeded, reassembly) -> routes;
for_us [0] -> CheckICMPHeader -> ping :: ICMPPingResponder -> routes;
ping [1] -> Discard;
for_us [1] -> ICMPError(left, unreachable, port) -> routes;
for_us [2] -> ICMPError(left, unreachable, protocol) -> routes;
routes [4] -> Discard;

// Where no route leads. A default route takes its place: routes.set 0/0 GW 1
routes [3] -> ICMPError(left, unreachable, net) -> routes;

routes [1] -> to_left :: Forward(1, left, $LEFT_MTU) -> left;
routes [2] -> to_right :: Forward(2, right, $RIGHT_MTU) -> right;
to_left [1] -> routes;
to_right [1] -> routes;
