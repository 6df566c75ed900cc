// Hosts that only have IPv6 reach those that only have IPv4, all from one IPv4
// address (as NAT64, RFC 6146, does): 198.19.0.2 is 64:ff9b::198.19.0.2 to them.
//
//   linerate run examples/nat64.click SIX=eth1 FOUR=eth2 SIX_IP=2001:db8::1/64 \
//     FOUR_IP=198.19.0.1/24 GATEWAY=198.19.0.2
//
//   IPv6 hosts ---- SIX  this  FOUR ---- IPv4 hosts
//
// The addresses are its own, and the interfaces are better without addresses
// of the kernel. To try it:
//
//   for i in eth1 eth2; do sysctl net.ipv6.conf.$i.disable_ipv6=1; done
//   ip netns add six;  ip link add eth1 type veth peer name e0 netns six
//   ip netns add four; ip link add eth2 type veth peer name e0 netns four
//   ip link set eth1 up; ip -n six  link set e0 up
//   ip link set eth2 up; ip -n four link set e0 up
//   ip -n six  addr add 2001:db8::2/64 dev e0
//   ip -n six  route add default via 2001:db8::1
//   ip -n four addr add 198.19.0.2/24 dev e0
//   ip netns exec six ping 64:ff9b::198.19.0.2

define($SIX six, $FOUR four, $METHOD PCAP, $PREFIX 64:ff9b::, $SIX_MTU 1500,
       $SIX_IP 2001:db8::1/64, $FOUR_IP 198.19.0.1/24, $FOUR_MAPPED 64:ff9b::198.19.0.1,
       $GATEWAY 198.19.0.2);

AddressInfo(six $SIX_IP, four $FOUR_IP);

// The side of IPv6, as an interface of an IPv6 router.
FromDevice($SIX, PROMISC true, METHOD $METHOD)
  -> HostEtherFilter($SIX:eth, DROP_OWN true)
  -> six_kind :: Classifier(12/86dd 20/3a 54/87, 12/86dd 20/3a 54/88, 12/86dd, -);
six_send :: Queue(1024) -> ToDevice($SIX);
six_kind [0] -> IP6NDAdvertiser(six:ip6/128 $SIX:eth) -> six_send;
six_kind [1] -> [1] neighbours :: IP6NDSolicitor(six, $SIX:eth) -> six_send;
six_kind [2] -> DropBroadcasts -> Strip(14) -> CheckIP6Header -> GetIP6Address(24)
  -> to :: LookupIP6Route($PREFIX/96 0, ::/0 1);
six_kind [3] -> Discard;
to [1] -> ICMP6Error(six, 1, 0) -> neighbours;

// The side of IPv4, as an interface of a router.
FromDevice($FOUR, METHOD $METHOD)
  -> four_kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
four_send :: Queue(1024) -> ToDevice($FOUR);
four_kind [0] -> ARPResponder(four $FOUR:eth) -> four_send;
four_kind [1] -> [1] arp :: ARPQuerier(four, $FOUR:eth) -> four_send;
four_kind [2] -> HostEtherFilter($FOUR:eth) -> Strip(14) -> CheckIPHeader
  -> for_us :: IPClassifier(dst host four:ip, -) -> IPReassembler -> ttl :: DecIPTTL;
four_kind [3] -> Discard;
for_us [1] -> Discard;

// Addresses and ports are translated as long as packets are IPv6: flows from
// inside get a port of the IPv4 address.
ports :: AddressTranslator(0, true, true, false, $FOUR_MAPPED 1024 65535);

to [0] -> limit :: DecIP6HLIM -> [0] ports;
ports [0] -> ProtocolTranslator64(PREFIX $PREFIX/96)
  -> StaticIPLookup(four:ipnet 0, 0/0 $GATEWAY 0) -> arp;
limit [1] -> ICMP6Error(six, 3, 0) -> neighbours;

// Packets become 20 bytes longer on the way in.
ttl -> ProtocolTranslator46(PREFIX $PREFIX/96) -> [1] ports;
ports [1] -> GetIP6Address(24) -> IP6Fragmenter($SIX_MTU) -> neighbours;
ttl [1] -> ICMPError(four, timeexceeded) -> arp;
