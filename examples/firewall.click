// A firewall between two networks, invisible to their hosts: it has no
// address of its own, and both are parts of one network.
//
//   linerate run examples/firewall.click INSIDE=xdp:eth1 OUTSIDE=xdp:eth2 \
//       NET=192.0.2.0/25 SERVER=192.0.2.80
//
// Without arguments both sides are ports in memory. Refused packets, by reason:
// `linerate call firewall from_outside/rules.drops`, if it was started with
// --control. Only IPv4 and ARP pass.

define($INSIDE "null:inside", $OUTSIDE "null:outside", $NET 192.0.2.0/25, $SERVER 192.0.2.80);

elementclass Guard { __REST__ $rules |
  input -> kind :: Classifier(12/0800, 12/0806, -);
  kind[0] -> CheckIPHeader(14) -> rules :: IPFilter($rules) -> output;
  kind[1] -> output;
  kind[2] -> Discard;
}

FromPort($OUTSIDE) -> from_outside :: Guard(
    // No address of the inside comes from outside.
    deny src net $NET,
    // The later parts of a packet whose first part was let through.
    allow ip frag and not ip[6:2] & 0x1fff == 0,
    // What anybody may ask the server for.
    allow dst host $SERVER and (tcp dst port www or https),
    // Answers to those inside: no TCP segment that opens a connection.
    allow tcp and ack,
    allow udp src port domain or ntp,
    allow icmp type echo-reply or unreachable or timeexceeded,
    deny all
) -> ToPort($INSIDE);

FromPort($INSIDE) -> from_inside :: Guard(
    // No address of the outside comes from inside.
    deny not src net $NET,
    // Mail goes by the server alone.
    deny tcp dst port smtp and not src host $SERVER,
    allow all
) -> ToPort($OUTSIDE);
