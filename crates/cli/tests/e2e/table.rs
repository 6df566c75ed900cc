//! The table of a configuration on interfaces: all of it is right where packets come by the
//! thousand and where they are rare.

use linerate_test_support::Lab;
use serde_json::Value;

use crate::support::{DRIVERS, Program, linerate_in, number, words};

fn element<'a>(figures: &'a Value, name: &str) -> &'a Value {
    let all = figures["elements"].as_array().expect("elements");
    all.iter().find(|element| element["name"] == name).expect("the element")
}

#[test]
#[ignore = "needs root"]
fn a_device_that_sends_has_packets_and_costs() {
    for (driver, rate, count) in [("packet", "max", 20_000), ("xdp", "max", 20_000)]
        .into_iter()
        .chain(DRIVERS.map(|driver| (driver, "200pps", 40)))
    {
        let lab = Lab::new();
        let [a, b, c] = ["a", "b", "c"].map(|label| lab.namespace(label));
        lab.veth(&a, "a0", &b, "b0");
        lab.veth(&b, "b1", &c, "c0");
        let config =
            format!("f::FromDevice({driver}:b0)->q::Queue(30000)->t::ToDevice({driver}:b1)");
        let line = format!("run -e {config} --json --interval 100ms");
        let all = [&[crate::support::LINERATE][..], &words(&line)].concat();
        let mut running = Program::start_command(&b, b.command(all), &line);
        running.wait_ready();
        let sent = linerate_in(&a, &format!("generate packet:a0 --rate {rate} --count {count}"));
        assert_eq!(number(&sent.summary(), "sent_packets"), count);
        running.running.signal(rustix::process::Signal::INT);
        let ended = running.end();
        let summary = ended.summary();
        let taken = number(element(&summary, "q"), "packets");
        assert!(taken > 0, "{driver} {rate}: {summary}");
        for name in ["f", "q", "t"] {
            let element = element(&summary, name);
            assert_eq!(number(element, "packets"), taken, "{driver} {rate}: {element}");
            let cost = element["cycles_per_packet"].as_f64();
            assert!(cost.is_some_and(|cost| cost > 0.0), "{driver} {rate}: {element}");
        }
        for figures in ended.json().iter().filter(|object| object["event"] == "interval") {
            let elements = figures["elements"].as_array().expect("elements").iter();
            let parts = elements.map(|element| &element["share"]);
            let parts = parts.chain([&figures["engine_share"], &figures["idle_share"]]);
            let sum: f64 = parts.map(|part| part.as_f64().expect("a share")).sum();
            assert!((sum - 1.0).abs() < 1e-6, "{driver} {rate}: {sum} {figures}");
        }
    }
}
