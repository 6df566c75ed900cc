// Answers ARP queries for every address of a network, as proxy ARP does: who
// asks is told to send here.
//
//   linerate run examples/arp-responder.click DEV=eth1 NET=10.0.0.0/24
//
// needs root.

define($DEV eth1, $NET 10.0.0.0/24, $MAC 02:00:00:00:00:01);

FromDevice($DEV, PROMISC true)
  -> c :: Classifier(12/0806 20/0001, -)
  -> ARPResponder($NET $MAC)
  -> Queue
  -> ToDevice($DEV);

c [1] -> Discard;
