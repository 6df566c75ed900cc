//! A wheel is made, installed into an environment of its own, and used there: by programs in Python
//! that get packets of a server in this process.
#![allow(missing_docs, reason = "a test program")]

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, OnceLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use linerate_cluster::{
    Access, BalancerHandle, Broker, ConsumerHandle, Granted, InlineConfig, InlineHandle,
};
use linerate_memory::{Arena, ArenaOptions, Frame, PoolCache};
use linerate_test_support::programs::require_python_with_numpy;

const TIMEOUT: Duration = Duration::from_secs(20);

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn done(command: &mut Command) {
    let output = command.output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success(), "{command:?}: {}", said.concat());
}

/// The Python of an environment that has the wheel and, from the system, NumPy: one for all tests.
fn python() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let folder = MADE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        make_environment(&folder);
        folder
    });
    folder.join("environment/bin/python")
}

fn make_environment(folder: &Path) {
    let library =
        env::current_exe().unwrap().parent().unwrap().join("liblinerate_client_python.so");
    let python = require_python_with_numpy();
    let environment = folder.join("environment");
    done(Command::new(python).args(["-m", "venv", "--system-site-packages"]).arg(&environment));
    let python = environment.join("bin/python");
    let pip = || {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "--isolated", "--disable-pip-version-check"]).current_dir(folder);
        // Nothing may be fetched.
        pip.env_remove("PIP_FIND_LINKS").env("PIP_NO_INDEX", "1");
        pip
    };
    done(pip().args(["wheel", "--no-deps"]).arg(package()).env("LINERATE_LIBRARY", library));
    let wheels = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let wheel = wheels.into_iter().find(|path| path.extension().is_some_and(|end| end == "whl"));
    done(pip().args(["install", "--no-index"]).arg(wheel.unwrap()));
}

/// A server with a place called `one`.
struct Server {
    arena: Arena,
    pool: PoolCache,
    broker: Arc<Broker>,
    address: String,
    balancer: BalancerHandle,
    from: ConsumerHandle,
    /// The number of the next packet.
    next: u64,
}

impl Server {
    fn new(name: &str) -> Server {
        let options = ArenaOptions { size: 2 << 20, huge: false, ..ArenaOptions::default() };
        let arena = options.create().unwrap();
        let address = format!("@linerate-python-{}-{name}", std::process::id());
        let broker = Broker::open(&address, &arena).unwrap();
        let granted = Granted { access: Access::Write, cells: 64 };
        let consumers = [("one".to_string(), 1)];
        let balancer = BalancerHandle::new(&broker, "b", &consumers, granted, true).unwrap();
        let from = ConsumerHandle::to_receive(&broker, "one", Access::Write, 4).unwrap();
        Server { pool: arena.cache(64), arena, broker, address, balancer, from, next: 0 }
    }

    /// Shares out packets that `fill` makes of their number and 60 bytes and as many as that.
    fn share_out(&mut self, count: usize, fill: impl Fn(u64, &mut [u8])) {
        let (mut frame, mut absent) = (Frame::new(64), Frame::new(64));
        for _ in 0..count {
            let mut slot = self.pool.take_one(60 + (self.next % 1000) as usize).expect("a buffer");
            self.arena.meta_mut(&mut slot).unwrap().timestamp = 1_000_000_000 + self.next;
            fill(self.next, self.arena.packet_mut(&mut slot).unwrap());
            self.next += 1;
            frame.push(slot).unwrap();
        }
        let ids = [self.balancer.balancer()];
        let hashes = vec![0; count];
        let mut dispatcher = self.broker.dispatcher();
        dispatcher.share_out(&ids, &hashes, false, &mut self.pool, &mut frame, &mut absent);
        assert!(frame.is_empty() && absent.is_empty());
    }

    /// Takes the packets that the consumer has sent to the end of a list.
    fn receive(&mut self, sent: &mut Vec<Vec<u8>>) {
        let mut frame = Frame::new(64);
        self.broker.dispatcher().receive(self.from.endpoint(), &mut self.pool, &mut frame);
        sent.extend(self.arena.packets(&frame).map(<[u8]>::to_vec));
        self.pool.give(&mut frame);
    }

    fn start(&self, python: &Path, script: &str) -> Child {
        let mut command = Command::new(python);
        command.arg(package().join(script)).args([&self.address, "one"]);
        command.stdout(Stdio::piped()).spawn().unwrap()
    }

    fn wait_for(&self, what: &str, holds: impl Fn(&Server) -> bool) {
        let until = Instant::now() + TIMEOUT;
        while !holds(self) {
            assert!(Instant::now() < until, "{what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends when its consumer has seen all, and returns that one's output.
    fn ends(self, consumer: Child) -> String {
        self.wait_for("it looks at all packets", |server| server.from.figures().waiting == 0);
        let Server { arena, pool, broker, balancer, from, .. } = self;
        drop((balancer, from, broker));
        let output = consumer.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}, {said}", output.status);
        drop(pool);
        assert_eq!(arena.accounting().held, 0, "buffers are lost");
        said
    }
}

/// An IPv4 packet, as far as the examples look at it.
fn ipv4(number: u64, bytes: &mut [u8]) {
    bytes.fill(0);
    bytes[12] = 8;
    bytes[23] = if number.is_multiple_of(3) { 6 } else { 17 };
    bytes[26] = 10 + (number % 2) as u8;
    bytes[30] = 20;
}

#[test]
#[ignore = "needs Python with NumPy"]
fn a_wheel_is_installed_and_used() {
    let python = python();
    done(Command::new(&python).arg(package().join("tests/stubs.py")));
    everything_there_is(&python);
    examples(&python);
    answers(&python);
}

fn everything_there_is(python: &Path) {
    let mut server = Server::new("all");
    let mut program = server.start(python, "tests/consumer.py");
    let (line, lines) = mpsc::channel();
    let stdout = BufReader::new(program.stdout.take().unwrap());
    let reader = thread::spawn(move || {
        stdout.lines().map_while(Result::ok).for_each(|text| line.send(text).unwrap());
    });
    let mut sent = Vec::new();
    loop {
        server.receive(&mut sent);
        match lines.recv_timeout(Duration::from_millis(1)) {
            Ok(text) if text == "end" => break,
            Ok(text) => server.share_out(text.parse().unwrap(), |number, bytes| {
                bytes.fill(number as u8);
                bytes[..8].copy_from_slice(&number.to_ne_bytes());
            }),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{}", program.wait().unwrap()),
        }
    }
    server.ends(program);
    assert_eq!(lines.iter().collect::<Vec<_>>(), ["done"]);
    reader.join().unwrap();
    assert_eq!(sent.len(), 7);
    assert_eq!((&sent[0][8..12], &sent[1][8..12]), (&b"here"[..], &b"also"[..]));
    assert_eq!((&sent[5][..], &sent[6][..]), (&b"from Python"[..], &[0; 70][..]));
}

fn examples(python: &Path) {
    let ended = "the server has ended this consumer: the server has ended, or has no such consumer \
                 any more\n";
    let matrix = "       to 10  11  20 \nfrom  10          @@@\nfrom  11          @@@\n\
                  from  20             \n11.0.0.0/8 to 20.0.0.0/8: 1125 bytes\n\
                  10.0.0.0/8 to 20.0.0.0/8: 1110 bytes\n0 packets lost\n";
    let expected = [
        ("count", "protocol 6: 10 packets\nprotocol 17: 20 packets\n2235 bytes, 0 packets lost\n"),
        ("matrix", matrix),
    ];
    for (name, expected) in expected {
        let mut server = Server::new(name);
        let program = server.start(python, &format!("examples/{name}.py"));
        server.wait_for("it attaches", |server| server.broker.dispatcher().is_attached("one"));
        server.share_out(30, ipv4);
        assert_eq!(server.ends(program), format!("{ended}{expected}"), "{name}");
    }
}

fn answers(python: &Path) {
    let options = ArenaOptions { size: 1 << 20, huge: false, ..ArenaOptions::default() };
    let arena = options.create().unwrap();
    let address = format!("@linerate-python-{}-asks", std::process::id());
    let broker = Broker::open(&address, &arena).unwrap();
    let granted = Granted { access: Access::Read, cells: 64 };
    let terms =
        InlineConfig { limit: TIMEOUT, open: false, most: 64, flows: 64, flow_time: TIMEOUT };
    let asks = InlineHandle::new(&broker, "one", granted, terms).unwrap();
    let mut program = Command::new(python);
    program.arg(package().join("tests/answers.py")).args([&address, "one"]);
    let program = program.stdout(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + TIMEOUT;
    while !broker.dispatcher().is_attached("one") {
        assert!(Instant::now() < until, "it attaches");
        thread::sleep(Duration::from_millis(1));
    }
    let mut pool = arena.cache(32);
    // Hosts whose packets come, and those of packets that pass. The verdict on a flow holds for
    // others.
    for (hosts, pass) in [(&[1, 2, 3, 4, 5, 6][..], &[1, 3, 6][..]), (&[3, 4, 2, 3], &[3, 2, 3])] {
        let (mut frame, mut passed) = (Frame::new(32), Frame::new(32));
        for host in hosts {
            let mut slot = pool.take_one(60).unwrap();
            let bytes = arena.packet_mut(&mut slot).unwrap();
            ipv4(1, bytes);
            (bytes[14], bytes[17], bytes[29]) = (0x45, 46, *host);
            frame.push(slot).unwrap();
        }
        broker.dispatcher().ask(&asks, &mut pool, &mut frame);
        while asks.waiting() > 0 || passed.len() < pass.len() {
            assert!(Instant::now() < until, "it answers");
            broker.dispatcher().drain(&asks, &mut pool, &mut passed);
            thread::sleep(Duration::from_millis(1));
        }
        let got: Vec<u8> = arena.packets(&passed).map(|packet| packet[29]).collect();
        assert_eq!(got, pass);
        pool.give(&mut passed);
    }
    drop((asks, broker));
    let output = program.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"done\n"[..]));
}

/// The Rust consumer among the examples, in a process of its own.
#[allow(dead_code, reason = "its `main`")]
#[path = "../../client/examples/count.rs"]
mod count;

const ROLE: &str = "LINERATE_TEST_COUNTS_AT";

/// Not a test of its own: the work of the process that is a consumer in Rust.
#[test]
fn consumer_process() {
    if let Ok(address) = env::var(ROLE) {
        count::count(&address, "rust").unwrap();
    }
}

/// The C consumer among the examples, compiled against the installed files.
fn consumer_in_c(folder: &Path) -> Command {
    let (prefix, program) = (folder.join("prefix"), folder.join("count"));
    let source = package().with_file_name("client-c");
    let built = env::current_exe().unwrap().parent().unwrap().to_owned();
    done(Command::new("sh").arg(source.join("install.sh")).arg(built).arg(&prefix));
    let mut compile = Command::new("cc");
    compile.arg("-o").arg(&program).arg(source.join("examples/count.c"));
    compile.arg("-I").arg(prefix.join("include")).arg("-L").arg(prefix.join("lib"));
    done(compile.arg("-llinerate_client"));
    let mut run = Command::new(program);
    run.env("LD_LIBRARY_PATH", prefix.join("lib"));
    run
}

/// `LINERATE_PACKETS=10000000` says how many.
#[test]
#[ignore = "needs Python with NumPy"]
fn consumers_in_three_languages_see_all_and_a_sleeper_loses_his_own() {
    const CELLS: u64 = 512;
    let packets: u64 = env::var("LINERATE_PACKETS").map_or(50_000, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let options = ArenaOptions { size: 8 << 20, huge: false, ..ArenaOptions::default() };
    let arena = options.create().unwrap();
    let address = format!("@linerate-python-{}-three", std::process::id());
    let broker = Broker::open(&address, &arena).unwrap();
    let granted = Granted { access: Access::Read, cells: CELLS as u32 };
    let balancers = ["c", "rust", "python", "sleeper"].map(|name| {
        BalancerHandle::new(&broker, name, &[(name.into(), 1)], granted, true).unwrap()
    });
    let mut in_c = consumer_in_c(folder.path());
    in_c.args([&*address, "c"]);
    let mut in_rust = Command::new(env::current_exe().unwrap());
    in_rust.args(["--exact", "consumer_process", "--nocapture"]).env(ROLE, &address);
    let mut in_python = Command::new(python());
    in_python.arg(package().join("examples/count.py")).args([&*address, "python"]);
    let sleeper = linerate_client::Consumer::attach(&address, "sleeper").unwrap();
    let consumers = [in_c, in_rust, in_python]
        .map(|mut command| command.stdout(Stdio::piped()).spawn().unwrap());
    let until = Instant::now() + TIMEOUT;
    while broker.dispatcher().consumers().iter().any(|(_, process)| process.is_none()) {
        assert!(Instant::now() < until, "they attach");
        thread::sleep(Duration::from_millis(1));
    }
    let mut pool = arena.cache(128);
    let (mut frame, mut absent) = (Frame::new(64), Frame::new(64));
    let ids = balancers.each_ref().map(BalancerHandle::balancer);
    let figures = |at: usize| balancers[at].endpoints()[0].figures();
    let (mut made, mut bytes, begun) = (0, 0, Instant::now());
    let mut moved = begun;
    // A burst at a time, when those that read have room for it.
    while made < packets {
        let has_room = (0..3).all(|at| figures(at).held + 64 <= CELLS);
        let count = if has_room { (packets - made).min(64) } else { 0 };
        for number in made..made + count {
            let mut slot = pool.take_one(60 + (number % 1000) as usize).expect("a buffer");
            ipv4(1, arena.packet_mut(&mut slot).unwrap());
            bytes += slot.len() as u64;
            frame.push(slot).unwrap();
        }
        let hashes = [0; 64];
        let mut dispatcher = broker.dispatcher();
        dispatcher.share_out(
            &ids,
            &hashes[..frame.len()],
            false,
            &mut pool,
            &mut frame,
            &mut absent,
        );
        assert!(frame.is_empty() && absent.is_empty());
        drop(dispatcher);
        made += count;
        if count > 0 {
            moved = Instant::now();
        } else {
            assert!(moved.elapsed() < TIMEOUT, "they go on");
            thread::yield_now();
        }
    }
    let took = begun.elapsed();
    while (0..3).any(|at| figures(at).waiting > 0) {
        assert!(moved.elapsed() < TIMEOUT, "they look at all packets");
        thread::sleep(Duration::from_millis(1));
    }
    let [of_c, of_rust, of_python, of_sleeper] = [0, 1, 2, 3].map(figures);
    for of in [of_c, of_rust, of_python] {
        assert_eq!((of.packets, of.bytes, of.lost_full), (packets, bytes, 0));
    }
    assert_eq!((of_sleeper.packets, of_sleeper.lost_full), (CELLS, packets - CELLS));
    drop((sleeper, balancers, broker));
    let said = consumers.map(|consumer| {
        let output = consumer.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    });
    println!(
        "{packets} packets, {bytes} bytes in {took:?}: {said:?}; lost by a sleeper {}",
        of_sleeper.lost_full
    );
    assert!(said[0].contains(&format!("protocol 17: {packets} packets\nlost: 0\n")), "{said:?}");
    let of_all = format!("20.0.0.0/8: {packets} packets, {bytes} bytes\n0 lost\n");
    assert!(said[1].contains(&of_all), "{said:?}");
    let of_all = format!("protocol 17: {packets} packets\n{bytes} bytes, 0 packets lost\n");
    assert!(said[2].contains(&of_all), "{said:?}");
    drop(pool);
    assert_eq!(arena.accounting().held, 0, "buffers are lost");
}
