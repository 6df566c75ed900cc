//! Records packets into pcapng files, until its server ends or Ctrl-C:
//!
//!   record [--rotate-size BYTES] [--rotate-time SECONDS] [--keep FILES] [--buffer BYTES]
//!       [--window MILLISECONDS] FILE SOCKET NAME...
//!
//! Under several names it has the packets of several consumers, of two ports for example, and
//! writes them in the order of their times. A packet waits for earlier ones that another port may
//! still have, for the window (10 ms) at most: packets served later than that are not in order.
//!
//! A thread writes, so that a disk that stands still for a while, as disks do, has nothing lost:
//! packets are copied to a buffer (256 MB) meanwhile, and wait in the cluster's memory when that is
//! full. Losses then are in the statistics at the end of each file, and printed at the end.

use std::{
    env,
    os::fd::AsFd,
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use linerate_client::{ClientError, Connection, Consumer};
use linerate_memory::Frame;
use linerate_port::pcap::{Counts, Error, Format, Limits, Options, Rotating, Writer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const USAGE: &str = "record [--rotate-size BYTES] [--rotate-time SECONDS] [--keep FILES] \
    [--buffer BYTES] [--window MILLISECONDS] FILE SOCKET NAME...";
/// Packets taken at once from each consumer.
const BURST: usize = 256;
/// Bytes that go to the thread that writes at once, and packets.
const CHUNK: (usize, usize) = (1 << 20, 1 << 14);
/// Interval of looking for Ctrl-C where no packets come.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Options of the command line.
struct Arguments {
    limits: Limits,
    window: u64,
    buffer: usize,
    file: String,
    socket: String,
    names: Vec<String>,
}

fn arguments(mut rest: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut limits = Limits::default();
    let mut window = Duration::from_millis(10);
    let mut buffer = 256_000_000;
    let mut words = Vec::new();
    while let Some(word) = rest.next() {
        let mut number = || rest.next().and_then(|text| text.parse::<u64>().ok());
        match &*word {
            "--rotate-size" => limits.bytes = Some(number().context("a size in bytes")?),
            "--rotate-time" => {
                limits.duration = Some(Duration::from_secs(number().context("seconds")?));
            }
            "--keep" => {
                let files = number().and_then(|files| usize::try_from(files).ok()?.try_into().ok());
                limits.files = Some(files.context("files from 1 on")?);
            }
            "--buffer" => buffer = number().context("a size in bytes")? as usize,
            "--window" => window = Duration::from_millis(number().context("milliseconds")?),
            option if option.starts_with("--") => bail!("no option is called {option}\n{USAGE}"),
            _ => words.push(word),
        }
    }
    if words.len() < 3 {
        bail!(USAGE);
    }
    let names = words.split_off(2);
    let [file, socket] = <[String; 2]>::try_from(words).expect("two are left");
    Ok(Arguments { limits, window: window.as_nanos() as u64, buffer, file, socket, names })
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// File or files of the packets.
enum Files {
    One(Writer),
    Many(Box<Rotating>),
}

impl Files {
    fn create(arguments: &Arguments) -> Result<Files, Error> {
        let interface = Some(arguments.names.join(" "));
        let options = Options { interface, ..Options::new(Format::Pcapng) };
        let (path, limits) = (Path::new(&arguments.file), arguments.limits);
        if limits == Limits::default() {
            return Ok(Files::One(Writer::create(path, &options)?));
        }
        Ok(Files::Many(Box::new(Rotating::create(path, options, limits)?)))
    }

    fn write(&mut self, time: u64, packet: &[u8]) -> Result<(), Error> {
        let length = packet.len() as u32;
        match self {
            Files::One(file) => file.write(time, length, packet),
            Files::Many(files) => files.write(time, length, packet),
        }
    }

    fn set_counts(&mut self, counts: Counts) {
        match self {
            Files::One(file) => file.set_counts(counts),
            Files::Many(files) => files.set_counts(counts),
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        match self {
            Files::One(file) => file.flush(),
            Files::Many(files) => files.flush(),
        }
    }

    fn finish(self) -> Result<(), Error> {
        match self {
            Files::One(file) => file.finish().map(|_| ()),
            Files::Many(files) => files.finish().map(|_| ()),
        }
    }
}

/// Packets of a consumer, oldest first.
struct Stream {
    consumer: Consumer,
    frame: Frame,
    /// Time of reception of each packet: from the server, or of taking it where that gives none.
    times: Vec<u64>,
    /// The first that is not written.
    at: usize,
    /// Packets of those before that were lost.
    lost_before: u64,
    /// The reason why nothing comes any more.
    ended: Option<ClientError>,
}

impl Stream {
    fn attach(socket: &str, name: &str) -> Result<Stream, ClientError> {
        // Before it is attached, for from then on some may be lost.
        let all = Connection::open(socket)?.figures()?;
        let line = all.consumers().into_iter().find(|(_, known)| known == name);
        let lost_before = line.map_or(0, |(line, _)| all.figures(line).lost_full);
        let consumer = Consumer::attach(socket, name)?;
        let (frame, times) = (Frame::new(BURST), Vec::with_capacity(BURST));
        Ok(Stream { consumer, frame, times, at: 0, lost_before, ended: None })
    }

    /// The time of the next packet, if one is there.
    fn head(&self) -> Option<u64> {
        self.times.get(self.at).copied()
    }

    fn packet(&self) -> &[u8] {
        self.consumer.arena().packet(&self.frame.slots()[self.at])
    }

    /// Takes more packets once all are written.
    fn refill(&mut self) -> Result<(), ClientError> {
        if self.head().is_some() || self.ended.is_some() {
            return Ok(());
        }
        self.at = 0;
        self.times.clear();
        let taken = self.take();
        match taken {
            Err(error) if error.is_end() => self.ended = Some(error),
            taken => taken?,
        }
        let (arena, slots, now) = (self.consumer.arena(), self.frame.slots(), now());
        let times = slots.iter().map(|slot| arena.meta(slot).timestamp);
        self.times.extend(times.map(|time| if time == 0 { now } else { time }));
        Ok(())
    }

    fn take(&mut self) -> Result<(), ClientError> {
        if !self.frame.is_empty() {
            self.consumer.release(&mut self.frame)?;
        }
        self.consumer.receive_into(&mut self.frame).map(|_| ())
    }

    fn lost(&self) -> u64 {
        // A place that was made anew meanwhile counts from 0.
        self.consumer.figures().lost_full.saturating_sub(self.lost_before)
    }
}

/// Packets on their way to the thread that writes.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// The time of each, and its length.
    packets: Vec<(u64, u32)>,
    counts: Counts,
    /// Nothing follows for a while.
    is_last: bool,
}

impl Chunk {
    fn is_full(&self) -> bool {
        self.bytes.len() >= CHUNK.0 || self.packets.len() >= CHUNK.1
    }

    fn push(&mut self, time: u64, packet: &[u8]) {
        self.bytes.extend_from_slice(packet);
        self.packets.push((time, packet.len() as u32));
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.packets.clear();
    }
}

/// Writes the packets of chunks, and gives the chunks back.
fn write(mut files: Files, chunks: &Receiver<Chunk>, empty: &Sender<Chunk>) -> Result<(), Error> {
    for mut chunk in chunks {
        let mut rest = &chunk.bytes[..];
        for (time, length) in &chunk.packets {
            let (packet, behind) = rest.split_at(*length as usize);
            files.write(*time, packet)?;
            rest = behind;
        }
        files.set_counts(chunk.counts);
        if chunk.is_last {
            files.flush()?;
        }
        chunk.clear();
        // At the end it has no receiver.
        let _ = empty.send(chunk);
    }
    files.finish()
}

/// Takes packets in the order of their times. Where another consumer, from which more may come, has none,
/// only those from before `until`.
fn collect(streams: &mut [Stream], until: u64, chunk: &mut Chunk) -> Result<(), ClientError> {
    // After `until` was taken: all packets received before it are here by now.
    for stream in &mut *streams {
        stream.refill()?;
    }
    while !chunk.is_full() {
        let all = streams.iter().all(|stream| stream.head().is_some() || stream.ended.is_some());
        let heads =
            streams.iter().enumerate().filter_map(|(at, stream)| Some((stream.head()?, at)));
        let Some((time, at)) = heads.min().filter(|(time, _)| all || *time < until) else { break };
        let stream = &mut streams[at];
        chunk.push(time, stream.packet());
        stream.at += 1;
        stream.refill()?;
    }
    Ok(())
}

/// Waits until there are packets, for so long at most.
fn wait(streams: &mut [Stream], limit: Duration) -> Result<()> {
    let mut waits = Vec::new();
    for stream in streams.iter_mut().filter(|stream| stream.head().is_none()) {
        match stream.consumer.prepare_wait() {
            Ok(true) => waits.push(stream.consumer.as_fd()),
            Ok(false) => return Ok(()),
            Err(error) if error.is_end() => stream.ended = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    let mut polled: Vec<_> =
        waits.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    match poll(&mut polled, Some(&Timespec::try_from(limit)?)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Records as the words of a command line say.
pub(crate) fn record(words: impl Iterator<Item = String>) -> Result<()> {
    let arguments = arguments(words)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let files = Files::create(&arguments)?;
    let attach = |name: &String| Stream::attach(&arguments.socket, name);
    let mut streams = arguments.names.iter().map(attach).collect::<Result<Vec<_>, _>>()?;
    let (full, chunks) = mpsc::sync_channel((arguments.buffer / CHUNK.0).max(1));
    let (back, empty) = mpsc::channel();
    let writer = thread::spawn(move || write(files, &chunks, &back));
    let lost = |streams: &[Stream]| streams.iter().map(Stream::lost).sum::<u64>();
    let (mut packets, mut bytes) = (0, 0);
    let mut chunk = Chunk::default();
    // Those that were written, and how many are on their way.
    let (mut spare, mut under_way) = (Vec::new(), 0);
    loop {
        let stopped = stop.load(Ordering::Relaxed);
        let until = if stopped { u64::MAX } else { now().saturating_sub(arguments.window) };
        collect(&mut streams, until, &mut chunk)?;
        let is_end = streams.iter().all(|stream| stream.head().is_none() && stream.ended.is_some());
        let is_last = stopped || is_end || !chunk.is_full();
        for chunk in empty.try_iter() {
            spare.push(chunk);
            under_way -= 1;
        }
        // While others are written there is time to make it full.
        let is_due = chunk.is_full() || under_way == 0 || stopped || is_end;
        if is_due && (!chunk.packets.is_empty() || is_end) {
            under_way += 1;
            packets += chunk.packets.len() as u64;
            bytes += chunk.bytes.len() as u64;
            let dropped = lost(&streams);
            let counts = Counts { received: packets + dropped, dropped };
            let next = spare.pop().unwrap_or_default();
            let sent = full.send(Chunk { counts, is_last, ..std::mem::replace(&mut chunk, next) });
            if sent.is_err() {
                // Writing has failed, of which more below.
                break;
            }
        }
        if stopped || is_end {
            break;
        }
        if is_last {
            let oldest = streams.iter().filter_map(Stream::head).min();
            let left = oldest.map(|time| (time + arguments.window).saturating_sub(now()));
            wait(
                &mut streams,
                left.map_or(POLL_INTERVAL, |left| POLL_INTERVAL.min(Duration::from_nanos(left))),
            )?;
        }
    }
    let lost = lost(&streams);
    drop(full);
    writer.join().expect("it does not panic")?;
    if let Some(ended) = streams.iter().find_map(|stream| stream.ended.as_ref()) {
        println!("{ended}");
    }
    println!("{packets} packets, {bytes} bytes recorded, {lost} lost");
    Ok(())
}

fn main() -> ExitCode {
    match record(env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("record: {error:#}");
            ExitCode::FAILURE
        }
    }
}
