//! `linerate lab`: benchmarks of devices whose limits are known.

use linerate_test_support::{Lab, Namespace};
use serde_json::Value;

use crate::support::{Ended, LINERATE, linerate, words};

/// Trials long enough for the effect of buffers to be small, and generous to a machine with other
/// load.
const TRIALS: &str = "--trial 500ms --residual 100ms --late 100ms --retries 5 --force --json";

/// The only object of this event.
#[track_caller]
fn event(ended: &Ended, name: &str) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let mut found = ended.json();
    found.retain(|object| object["event"] == name);
    assert_eq!(found.len(), 1, "{ended:#?}");
    found.remove(0)
}

/// Runs `linerate` to its end in a namespace.
#[track_caller]
fn linerate_in(namespace: &Namespace, line: &str) -> Ended {
    let output = namespace.run([&[LINERATE][..], &words(line)].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// Measures until it comes out well: other load can spoil one of three, not all.
#[track_caller]
fn in_three_tries<T>(measure: impl Fn() -> Result<T, String>) -> T {
    let tries: Result<Vec<String>, T> = (0..3).map(|_| measure().map_or_else(Ok, Err)).collect();
    match tries {
        Err(good) => good,
        Ok(faults) => panic!("{faults:#?}"),
    }
}

/// The bounds found for the first goal, which must be regular, if the range between them is not
/// outside the limits.
fn bounds(result: &Value, [least, most]: [f64; 2]) -> Result<[f64; 2], String> {
    let found = &result["goals"][0]["result"];
    let bounds = ["lower", "upper"].map(|bound| found[bound].as_f64());
    match bounds {
        [Some(lower), Some(upper)]
            if found["ended"] == "found" && lower <= most && upper >= least =>
        {
            Ok([lower, upper])
        }
        _ => Err(format!("not from {least} to {most}: {found}")),
    }
}

/// 20,000 frames a second and a queue of 500: a trial of half a second passes 10,500 frames without
/// loss, of which 0.5 % may be lost on top.
#[test]
#[ignore = "measures, alone"]
fn a_configured_rate_is_found() {
    let width = 0.05;
    let line = format!(
        "lab ndr -e FromPort($IN)->Queue(500)->RatedUnqueue(20000)->ToPort($OUT) --goal pdr \
         --max-rate 100kpps --queue 16384 --idle adaptive --width {width} \
         --sum 1500ms {TRIALS}"
    );
    let limits = [20e3 * (1.0 - width), 21e3 / 0.995 * (1.0 + width)];
    let (result, [lower, upper]) = in_three_tries(|| {
        let result = event(&linerate(&line), "result");
        bounds(&result, limits).map(|bounds| (result, bounds))
    });
    assert!(1.0 - lower / upper <= width + 1e-9, "{lower} {upper}");
    // Every trial is there, at its load.
    let loads = result["loads"].as_array().unwrap();
    assert!(loads.iter().all(|load| !load["trials"].as_array().unwrap().is_empty()));
}

/// A Linux bridge between two veth pairs whose way out is shaped by the kernel:
/// 10 Mbit/s of 60 bytes are 20,833 frames a second.
#[test]
#[ignore = "needs root, alone"]
fn a_linux_bridge_is_found_at_its_rate() {
    let lab = Lab::new();
    let (tester, device) = (lab.namespace("tester"), lab.namespace("device"));
    for side in ["0", "1"] {
        lab.veth(&tester, &format!("tt{side}"), &device, &format!("dd{side}"));
    }
    device.ip(["link", "add", "br0", "type", "bridge", "mcast_snooping", "0"]);
    for side in ["dd0", "dd1"] {
        device.ip(["link", "set", side, "master", "br0"]);
    }
    device.link_up("br0");
    let shape = "tc qdisc add dev dd1 root tbf rate 10mbit burst 15000 limit 15000";
    device.expect(shape.split(' '));
    let width = 0.05;
    let line = format!(
        "lab ndr --tx packet:tt0 --rx packet:tt1 --goal pdr --max-rate 100kpps --width {width} \
         --sum 1500ms {TRIALS}"
    );
    // Besides the rate, 250 frames in the bucket and 250 in the queue, in half a second.
    let limits = [20_833.0 * (1.0 - width), 21_833.0 / 0.995 * (1.0 + width)];
    in_three_tries(|| bounds(&event(&linerate_in(&tester, &line), "result"), limits));

    let line = format!("lab loss --tx packet:tt0 --rx packet:tt1 --max-rate 50kpps {TRIALS}");
    in_three_tries(|| {
        let result = event(&linerate_in(&tester, &line), "result");
        let first = &result["points"][0];
        let [load, loss] = ["load_pps", "loss_ratio"].map(|key| first[key].as_f64().unwrap());
        let forwarded = load * (1.0 - loss);
        let holds =
            first["generator_limited"] == false && (limits[0]..=limits[1]).contains(&forwarded);
        if holds { Ok(()) } else { Err(first.to_string()) }
    });
}

#[test]
fn a_device_beyond_the_highest_load_is_said_to_be() {
    let line = "lab ndr -e FromPort($IN)->ToPort($OUT) --goal pdr --max-rate 5kpps --trial 50ms \
                --sum 100ms --late 1s --idle adaptive --queue 16384 --force --json";
    let ended = linerate(line);
    let result = event(&ended, "result");
    let found = &result["goals"][0]["result"];
    assert_eq!((&found["ended"], found["lower"].as_f64()), (&"at-highest".into(), Some(5000.0)));
    // Earlier measurements and the options are reported as well.
    assert_eq!(event(&ended, "start")["command"], "lab ndr");
    assert!(event(&ended, "platform")["highest_pps"].as_f64().unwrap() > 5000.0);
    assert!(ended.json().iter().filter(|object| object["event"] == "trial").count() > 10);
}

#[test]
fn latency_and_bursts_of_a_known_queue() {
    let base = "--max-rate 20kpps --late 1s --idle adaptive --queue 16384 --json";
    let line = format!(
        "lab latency -e FromPort($IN)->SetTimestamp->Queue->DelayShaper(5ms)->Unqueue->ToPort($OUT) \
         --throughput 2kpps --shares 0.5,0.9 --trial 200ms {base}"
    );
    let points = event(&linerate(&line), "result")["points"].take();
    for (point, load) in points.as_array().unwrap().iter().zip([1e3, 1.8e3]) {
        assert_eq!(
            (point["load_pps"].as_f64(), point["loss_ratio"].as_f64()),
            (Some(load), Some(0.0))
        );
        // No frame can be faster than the delay.
        assert!(point["min_ns"].as_u64().unwrap() >= 5_000_000, "{point}");
    }
    assert_eq!(points.as_array().unwrap().len(), 2);

    // A queue of 200 frames that nothing is taken from: so many come back
    // after the burst, and no longer burst is without loss.
    let line = format!(
        "lab back-to-back -e FromPort($IN)->Queue(200)->RatedUnqueue(1000)->ToPort($OUT) \
         --throughput 1kpps --longest 100ms --repetitions 1 --resolution 20 {base}"
    );
    let result = event(&linerate(&line), "result");
    let burst = result["bursts"]["bursts"][0].as_u64().unwrap();
    assert!(burst >= 180, "{result}");
}

#[test]
fn senseless_measurements_are_refused() {
    let device = "-e FromPort($IN)->ToPort($OUT)";
    linerate(&format!("lab ndr {device} --dst 10.0.0.1"))
        .failed(2, &["10.0.0.1", "RFC 6815", "--isolated"]);
    linerate("lab ndr").failed(2, &["no configuration"]);
    linerate(&format!("lab ndr {device} --trial 0s")).failed(2, &["goal"]);
    let wrong = linerate("lab ndr -e FromPort($IN)->Nonsense->ToPort($OUT)");
    assert!(wrong.code == Some(8) && wrong.stderr.contains("Nonsense"), "{wrong:#?}");
    let alone = linerate("lab ndr -e FromPort($IN)->ToPort($OUT) --tx null: --rx null:");
    assert_eq!(alone.code, Some(2), "{alone:#?}");
    linerate("lab ndr --tx null: --rx null: --residual 10ms")
        .failed(1, &["nothing came back", "--dst-mac"]);
    let nobody = format!("memif:@linerate-nobody-{}", std::process::id());
    linerate(&format!("lab ndr --tx {nobody} --rx null:"))
        .failed(1, &[&format!("the link of {nobody} is down"), "waiting for a server"]);
}
