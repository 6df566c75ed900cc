//! `linerate cluster attach`: a consumer that counts, records, or sends back.

use std::{
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use linerate_client::{ClientError, Consumer, Figures};
use linerate_port::pcap::{Counts, Error, Format, Limits, Options, Rotating, Writer};
use serde_json::json;

use crate::{
    args::Attach,
    live::{Cell, Live},
    output::Output,
    session::stop_on_signals,
    units::grouped,
};

/// Interval of looking for signals, and for a server that is not there.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Counts of packets.
#[derive(Debug, Clone, Copy, Default)]
struct PacketCounts {
    packets: u64,
    bytes: u64,
    sent: u64,
    /// Packets that were for this program and that it did not get.
    lost: u64,
}

pub(crate) fn run(args: &Attach) -> Result<()> {
    let stop = stop_on_signals()?;
    let mut consumer = Consumer::attach(&args.address, &args.name)?;
    let mut file = File::create(args)?;
    let output = Output::new(args.showing.json);
    let mut live = Live::new(output, &args.showing);
    live.start(
        &[format!("attached to {} as {}", args.address, args.name)],
        json!({"command": "cluster attach", "address": args.address, "name": args.name}),
    )?;
    let begun = Instant::now();
    let mut next = begun + args.showing.interval;
    let (mut done, mut last) = (PacketCounts::default(), (begun, PacketCounts::default()));
    let mut before = consumer.figures();
    let ended = loop {
        let now = Instant::now();
        if now >= next {
            done.lost += lost_since(&mut before, consumer.figures());
            if let Some(file) = &mut file {
                file.set_counts(&done);
            }
            row(&mut live, now - begun, now - last.0, &last.1, &done, before.waiting)?;
            last = (now, done);
            next = now + args.showing.interval;
        }
        let enough = args.count.is_some_and(|count| done.packets >= count)
            || args.duration.is_some_and(|limit| now - begun >= limit);
        if stop.is_raised() || enough {
            break None;
        }
        let patience = POLL_INTERVAL.min(next.saturating_duration_since(now));
        match turn(&mut consumer, patience, args, &mut done, file.as_mut()) {
            Ok(()) => {}
            Err(Failure::Client(error)) if error.is_end() && args.again => {
                live.note(&format!("{error}; waiting for the next"));
                done.lost += lost_since(&mut before, consumer.figures());
                consumer = loop {
                    match Consumer::attach(&args.address, &args.name) {
                        Ok(consumer) => break consumer,
                        Err(_) if !stop.is_raised() => thread::sleep(POLL_INTERVAL),
                        Err(error) => return Err(error.into()),
                    }
                };
                before = consumer.figures();
            }
            Err(Failure::Client(error)) if error.is_end() => break Some(error),
            Err(Failure::Client(error)) => return Err(error.into()),
            Err(Failure::File(error)) => return Err(error.into()),
        }
    };
    done.lost += lost_since(&mut before, consumer.figures());
    if let Some(mut file) = file {
        file.set_counts(&done);
        file.finish()?;
    }
    let took = begun.elapsed();
    live.summary(
        &[format!(
            "{} packets, {} bytes in {:.1} s; {} sent, {} lost because this program did not keep up",
            grouped(done.packets),
            grouped(done.bytes),
            took.as_secs_f64(),
            grouped(done.sent),
            grouped(done.lost),
        )],
        json!({
            "time": took.as_secs_f64(),
            "packets": done.packets,
            "bytes": done.bytes,
            "sent": done.sent,
            "lost": done.lost,
        }),
    )?;
    ended.map_or(Ok(()), |error| Err(error.into()))
}

/// The reason why a turn was the last.
enum Failure {
    Client(ClientError),
    File(Error),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure::Client(error)
    }
}

/// Waits for packets and counts, records or sends a burst of them.
fn turn(
    consumer: &mut Consumer,
    patience: Duration,
    args: &Attach,
    done: &mut PacketCounts,
    file: Option<&mut File>,
) -> Result<(), Failure> {
    let left = args.count.map_or(u64::MAX, |count| count - done.packets);
    if consumer.receive_at_most(left.try_into().unwrap_or(usize::MAX))? == 0 {
        consumer.wait(Some(patience))?;
        return Ok(());
    }
    if let Some(file) = file {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for (time, packet) in consumer.timed_packets() {
            // The server gives the time of reception, unless its port was not asked for times.
            let time = if time == 0 { now.as_nanos() as u64 } else { time };
            file.write(time, packet).map_err(Failure::File)?;
        }
    }
    done.packets += consumer.packets().count() as u64;
    done.bytes += consumer.packets().map(|packet| packet.len() as u64).sum::<u64>();
    if args.send {
        done.sent += consumer.send(|_| true)? as u64;
    }
    Ok(())
}

/// File or files of recorded packets.
enum File {
    One(Writer),
    Many(Box<Rotating>),
}

impl File {
    fn create(args: &Attach) -> Result<Option<File>, Error> {
        let Some(path) = &args.write else { return Ok(None) };
        let options =
            Options { interface: Some(args.name.clone()), ..Options::new(Format::from_path(path)) };
        let limits = Limits {
            bytes: args.rotate_size.map(|bytes| bytes as u64),
            duration: args.rotate_time,
            files: args.keep,
            ..Limits::default()
        };
        Ok(Some(if limits == Limits::default() {
            File::One(Writer::create(path, &options)?)
        } else {
            File::Many(Box::new(Rotating::create(path, options, limits)?))
        }))
    }

    fn write(&mut self, time: u64, packet: &[u8]) -> Result<(), Error> {
        let length = packet.len() as u32;
        match self {
            File::One(file) => file.write(time, length, packet),
            File::Many(files) => files.write(time, length, packet),
        }
    }

    fn set_counts(&mut self, done: &PacketCounts) {
        let counts = Counts { received: done.packets + done.lost, dropped: done.lost };
        match self {
            File::One(file) => file.set_counts(counts),
            File::Many(files) => files.set_counts(counts),
        }
    }

    fn finish(self) -> Result<(), Error> {
        match self {
            File::One(file) => file.finish().map(|_| ()),
            File::Many(files) => files.finish().map(|_| ()),
        }
    }
}

/// Packets lost since figures were last read.
fn lost_since(before: &mut Figures, now: Figures) -> u64 {
    let lost = now.lost_full.saturating_sub(before.lost_full);
    *before = now;
    lost
}

fn row(
    live: &mut Live,
    time: Duration,
    interval: Duration,
    last: &PacketCounts,
    done: &PacketCounts,
    waiting: u64,
) -> std::io::Result<()> {
    let rate = |count: u64| count as f64 / interval.as_secs_f64();
    live.row(
        time,
        &[
            Cell::count("received_pps", "pps", rate(done.packets - last.packets)),
            Cell::count("received_bps", "bit/s", rate(done.bytes - last.bytes) * 8.0),
            Cell::count("sent_pps", "sent pps", rate(done.sent - last.sent)),
            Cell::count("missed_pps", "lost pps", rate(done.lost - last.lost)),
            Cell::count("waiting", "waiting", waiting as f64),
        ],
    )
}
