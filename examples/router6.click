// An IPv6 router with two interfaces.
//
//   linerate run examples/router6.click LEFT=eth1 RIGHT=eth2 \
//     LEFT_IP=2001:db8:0:1::1/64 RIGHT_IP=2001:db8:0:2::1/64
//
//   hosts ---- LEFT  this  RIGHT ---- hosts
//
// The addresses are the router's own, and the interfaces are better without
// IPv6 of the kernel, which would answer too. To try it:
//
//   for i in eth1 eth2; do sysctl net.ipv6.conf.$i.disable_ipv6=1; done
//   ip netns add a; ip link add eth1 type veth peer name a0 netns a
//   ip link set eth1 up; ip -n a link set a0 up
//   ip -n a addr add 2001:db8:0:1::2/64 dev a0
//   ip -n a route add default via 2001:db8:0:1::1   (and so on for b)
//   ip netns exec a traceroute -6 2001:db8:0:2::2
//
// Routes can be changed while it runs: `linerate call router6 routes.add`, if it was
// started with --control.

define($LEFT left, $RIGHT right, $METHOD PCAP,
       $LEFT_IP 2001:db8:0:1::1/64, $RIGHT_IP 2001:db8:0:2::1/64,
       $LEFT_MTU 1500, $RIGHT_MTU 1500, $ND_TIMEOUT 120, $ND_POLL 60);

AddressInfo(left $LEFT_IP, right $RIGHT_IP);

// An interface: what comes in as IPv6 leaves by the output, and what is pushed
// in goes out with the address neighbour discovery finds. Its messages to
// groups are only heard promiscuously. Who has answered is asked again after
// ND_POLL seconds and not known any more after ND_TIMEOUT. Output 1: what was
// for a neighbour that does not answer.
elementclass Interface { $device, $ip |
  FromDevice($device, PROMISC true, METHOD $METHOD)
    -> HostEtherFilter($device:eth, DROP_OWN true)
    -> kind :: Classifier(12/86dd 20/3a 54/87, 12/86dd 20/3a 54/88, 12/86dd, -);
  send :: Queue(1024) -> ToDevice($device);
  kind [0] -> IP6NDAdvertiser($ip:ip6/128 $device:eth) -> send;
  kind [1] -> [1] neighbours
    :: IP6NDSolicitor($ip, $device:eth, TIMEOUT $ND_TIMEOUT, POLL_TIMEOUT $ND_POLL);
  // Nothing is forwarded from groups, link-local or unspecified addresses.
  kind [2] -> DropBroadcasts -> Strip(14) -> CheckIP6Header -> honest
    :: Classifier(8/ff, 8/fe80%ffc0, 8/000000000000000000000000000000, -);
  honest [0] -> Discard;
  honest [1] -> Discard;
  honest [2] -> Discard;
  honest [3] -> GetIP6Address(24) -> output;
  kind [3] -> Discard;
  input -> [0] neighbours -> send;
  neighbours [1] -> send;
  neighbours [2] -> [1] output;
}

// What a router does to a packet it forwards, and what it says when it cannot:
// a router may not divide packets, the sender has to.
// Output 0: packets to send; output 1: ICMPv6 errors, to be routed themselves,
// from the address of the side the packet came from.
elementclass Forward { $from, $mtu |
  input -> limit :: DecIP6HLIM -> long :: IP6Fragmenter($mtu) -> output;
  limit [1] -> ICMP6Error($from, 3, 0) -> [1] output;
  long [1] -> ICMP6Error($from, 2, 0, MTU $mtu) -> [1] output;
}

left :: Interface($LEFT, left);
right :: Interface($RIGHT, right);

// 0: for this router; 1, 2: for the networks at its interfaces; 3: for nowhere;
// 4: for one link, a group, or a loopback.
routes :: LookupIP6Route(left:ip6/128 0, right:ip6/128 0,
                         fe80::/10 4, ff00::/8 4, ::1/128 4,
                         left:ip6net 1, right:ip6net 2, ::/0 3);

left -> routes;
right -> routes;
left [1] -> ICMP6Error(right, 1, 3) -> routes;
right [1] -> ICMP6Error(left, 1, 3) -> routes;

// What is for the router itself: it has no ports, and answers pings.
routes [0] -> for_us :: Classifier(6/11, 6/06, 6/3a, -);
for_us [0] -> no_port :: ICMP6Error(left, 1, 4) -> routes;
for_us [1] -> no_port;
for_us [2] -> ICMP6PingResponder -> routes;
for_us [3] -> Discard;

// Where no route leads. A default route takes its place.
routes [3] -> ICMP6Error(left, 1, 0) -> routes;
routes [4] -> Discard;

routes [1] -> to_left :: Forward(right, $LEFT_MTU) -> left;
routes [2] -> to_right :: Forward(left, $RIGHT_MTU) -> right;
to_left [1] -> routes;
to_right [1] -> routes;
