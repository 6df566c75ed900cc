//! A program in C, compiled as a user would, gets packets of a server in this process.
#![allow(missing_docs, reason = "a test program")]

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use linerate_cluster::{
    Access, BalancerHandle, Broker, ConsumerHandle, Granted, InlineConfig, InlineHandle,
};
use linerate_memory::{Arena, ArenaOptions, Frame, HeaderStart};
use linerate_test_support::programs::require;

/// All other functions than those the example uses, and their values when they should fail.
const OTHERS: &str = r#"
#include <linerate_client.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	char error[12];
	lr_packet packets[LR_BURST];
	uint8_t chosen[LR_BURST] = {0};
	lr_figures figures;
	if (argc != 3 || lr_attach(argv[1], "nobody", error, sizeof error) || strlen(error) != 11)
		return 10;
	lr_consumer *consumer = lr_attach(argv[1], argv[2], NULL, 0);
	if (!consumer)
		return 11;
	int received;
	while ((received = lr_receive(consumer, packets)) == 0) {
		struct pollfd waited = {lr_fd(consumer), POLLIN, 0};
		if (lr_prepare_wait(consumer) && poll(&waited, 1, 10000) != 1)
			return 12;
	}
	if (received != 3 || packets[2].length != 60 || packets[2].data[0] != 2 || packets[1].time != 12345678901234)
		return 13;
	uint8_t *first = lr_writable(consumer, 0);
	if (!first || lr_writable(consumer, 3))
		return 14;
	first[0] = 77;
	chosen[0] = chosen[2] = 1;
	if (lr_send(consumer, chosen) != 2 || lr_transmit(consumer, "x", 1) != 0)
		return 15;
	if (lr_wait(consumer, 0) != 0 || lr_receive(consumer, packets) != 0)
		return 16;
	do
		lr_read_figures(consumer, &figures);
	while (figures.sent != 2);
	if (figures.packets != 3 || figures.bytes != 180)
		return 17;
	lr_detach(consumer);
	lr_detach(NULL);
	printf("done\n");
	return 0;
}
"#;

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The installed package, in a folder, from the libraries that this test was built with.
fn installed(folder: &Path) -> PathBuf {
    let prefix = folder.join("prefix");
    // Cargo leaves them beside the tests, the static one with a hash in its name.
    let built = env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let mut install = Command::new("sh");
    install.arg(package().join("install.sh")).arg(&built).arg(&prefix);
    done(&mut install);
    prefix
}

fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success(), "{command:?}: {}", said.concat());
    said.concat()
}

/// pkg-config's flags of the installed library, with the libraries that it needs itself or without.
fn flags(prefix: &Path, words: &[&str]) -> Vec<String> {
    let mut ask = Command::new(require("pkg-config"));
    ask.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(words).arg("linerate-client");
    done(&mut ask).split_whitespace().map(str::to_owned).collect()
}

/// Compiles a program against the installed files.
fn compiled(source: &Path, folder: &Path, prefix: &Path) -> Command {
    let program: PathBuf = folder.join(source.file_stem().unwrap());
    let mut compile = Command::new("cc");
    compile.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-o"]);
    compile.arg(&program).arg(source).arg("-I").arg(prefix.join("include"));
    compile.arg("-L").arg(prefix.join("lib")).arg("-llinerate_client");
    done(&mut compile);
    let mut run = Command::new(program);
    run.env("LD_LIBRARY_PATH", prefix.join("lib"));
    run
}

/// A server with a place called `one`, and a program that has attached to it.
struct Server {
    arena: Arena,
    broker: Arc<Broker>,
    balancer: BalancerHandle,
    program: Child,
}

impl Server {
    fn start(mut program: Command, options: &[&str]) -> Server {
        let options_of_memory =
            ArenaOptions { size: 1 << 20, huge: false, ..ArenaOptions::default() };
        let arena = options_of_memory.create().unwrap();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = format!("@linerate-c-{}-{number}", std::process::id());
        let broker = Broker::open(&address, &arena).unwrap();
        let granted = Granted { access: Access::Write, cells: 64 };
        let consumers = [("one".to_string(), 1)];
        let balancer = BalancerHandle::new(&broker, "b", &consumers, granted, true).unwrap();
        program.args(options).args([&address, "one"]);
        let program = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let server = Server { arena, broker, balancer, program };
        server.wait_for("it attaches", |server| server.broker.dispatcher().is_attached("one"));
        server
    }

    fn wait_for(&self, what: &str, holds: impl Fn(&Server) -> bool) {
        let until = Instant::now() + Duration::from_secs(20);
        while !holds(self) {
            assert!(Instant::now() < until, "{what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn share_out(&self, packets: &[Vec<u8>]) {
        let mut pool = self.arena.cache(32);
        for packets in packets.chunks(32) {
            self.wait_for("it keeps up", |server| {
                server.balancer.endpoints()[0].figures().held < 32
            });
            let (mut frame, mut absent) = (Frame::new(32), Frame::new(32));
            for packet in packets {
                let mut slot = pool.take_one(packet.len()).unwrap();
                self.arena.packet_mut(&mut slot).unwrap().copy_from_slice(packet);
                self.arena.meta_mut(&mut slot).unwrap().timestamp = 12_345_678_901_234;
                frame.push(slot).unwrap();
            }
            let ids = [self.balancer.balancer()];
            let hashes = vec![0; frame.len()];
            let mut dispatcher = self.broker.dispatcher();
            dispatcher.share_out(&ids, &hashes, false, &mut pool, &mut frame, &mut absent);
            assert!(frame.is_empty() && absent.is_empty());
        }
    }

    /// Output of the program when it has ended by itself, or because the server does once it has
    /// seen all packets.
    fn said(self, ends_first: bool) -> String {
        let Server { arena, broker, balancer, program } = self;
        if ends_first {
            let until = Instant::now() + Duration::from_secs(20);
            while balancer.endpoints()[0].figures().waiting > 0 {
                assert!(Instant::now() < until, "it looks at all packets");
                thread::sleep(Duration::from_millis(1));
            }
            drop((balancer, broker));
        }
        let output = program.wait_with_output().unwrap();
        let said = [output.stderr, output.stdout].map(|said| String::from_utf8(said).unwrap());
        assert!(output.status.success(), "{}, {}", output.status, said.concat());
        // Dropped above, or now.
        assert!(!ends_first || arena.accounting().held == 0);
        said.concat()
    }
}

const ENDED: &str = "the server has ended this consumer: the server has ended, or has no such \
                     consumer any more\n";

#[test]
fn programs_in_c_get_packets() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = installed(folder.path());
    let others = folder.path().join("others.c");
    fs::write(&others, OTHERS).unwrap();
    let packets = [0, 1, 2].map(|number| {
        let mut packet = vec![17; 60];
        packet[0] = number;
        packet
    });
    let count = package().join("examples/count.c");
    let server = Server::start(compiled(&count, folder.path(), &prefix), &[]);
    server.share_out(&packets);
    assert_eq!(server.said(true), format!("{ENDED}protocol 17: 3 packets\nlost: 0\n"));
    let server = Server::start(compiled(&others, folder.path(), &prefix), &[]);
    server.share_out(&packets);
    assert_eq!(server.said(false), "done\n");
}

/// An IP packet of UDP between two hosts, or of another protocol, with a tag or without.
fn ip(version: u8, protocol: u8, from: (u8, u16), to: (u8, u16), tag: bool) -> Vec<u8> {
    let mut packet = vec![0; 12];
    if tag {
        packet.extend([0x81, 0, 0, 7]);
    }
    let start = packet.len() + 2;
    if version == 4 {
        packet.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0]);
        packet.extend([10, 0, 0, from.0, 10, 0, 0, to.0]);
        assert_eq!(packet.len(), start + 20);
    } else {
        packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, protocol, 64]);
        for host in [from.0, to.0] {
            packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
        }
        assert_eq!(packet.len(), start + 40);
    }
    packet.extend([from.1.to_be_bytes(), to.1.to_be_bytes()].concat());
    packet.resize(100, 0);
    if version == 4 {
        packet[start + 3] = 100 - start as u8;
    }
    packet
}

#[test]
fn flows_are_counted_in_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = installed(folder.path());
    let source = package().join("examples/flows.c");
    let start = |options: &[&str]| {
        Server::start(compiled(&source, folder.path(), &prefix), &[&["-i", "0"], options].concat())
    };
    let mut packets = Vec::new();
    // The lesser side of the first flow is the one with the lesser port.
    packets.extend(vec![ip(4, 17, (1, 9), (1, 300), false); 5]);
    packets.extend(vec![ip(4, 17, (1, 300), (1, 9), true); 4]);
    packets.extend(vec![ip(6, 6, (2, 80), (1, 4000), false); 3]);
    packets.extend(vec![ip(4, 1, (1, 8), (2, 9), false); 2]);
    packets.push(vec![0; 60]);
    packets.push([0x81, 0].repeat(7));
    let server = start(&[]);
    server.share_out(&packets);
    let first =
        "10.0.0.1 9, 10.0.0.1 300, protocol 17: 5 packets 500 bytes, back 4 packets 400 bytes\n";
    let expected = "2001:db8::1 4000, 2001:db8::2 80, protocol 6: 0 packets 0 bytes, back 3 packets \
                    300 bytes\n10.0.0.1 0, 10.0.0.2 0, protocol 1: 2 packets 200 bytes, back 0 \
                    packets 0 bytes\n3 flows, 0 forgotten; 0 packets of others, 2 not of IP, 0 lost\n";
    assert_eq!(server.said(true), format!("flows: {ENDED}{first}{expected}"));
    // No room for the third, and no more than one is printed.
    let server = start(&["-m", "2", "-t", "1"]);
    server.share_out(&packets);
    let expected = "2 flows, 0 forgotten; 2 packets of others, 2 not of IP, 0 lost\n";
    assert_eq!(server.said(true), format!("flows: {ENDED}{first}{expected}"));
    // Thousands of flows are each found again, and one signal ends it.
    let server = start(&["-m", "5000", "-t", "0"]);
    let many: Vec<_> = (0..5000).map(|port| ip(4, 17, (1, port), (2, 53), false)).collect();
    server.share_out(&many);
    server.share_out(&many);
    // Packets given back have been counted.
    server.wait_for("it looks at all", |server| server.balancer.endpoints()[0].figures().held == 0);
    done(Command::new("kill").args(["-INT", &server.program.id().to_string()]));
    let expected = "5000 flows, 0 forgotten; 0 packets of others, 0 not of IP, 0 lost\n";
    assert_eq!(server.said(false), expected);
}

#[test]
fn flows_are_forgotten_when_they_are_idle() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = installed(folder.path());
    let source = package().join("examples/flows.c");
    let program = compiled(&source, folder.path(), &prefix);
    let mut server = Server::start(program, &["-i", "1", "-e", "1", "-t", "3"]);
    let packets = [1, 2, 3].map(|host| ip(4, 17, (host, 1), (9, 1), false));
    server.share_out(&packets);
    let stdout = BufReader::new(server.program.stdout.take().unwrap());
    let mut lines = stdout.lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("3 flows, 0 forgotten")));
    assert!(lines.any(|line| line.starts_with("0 flows, 3 forgotten")));
    server.share_out(&packets[..1]);
    assert!(lines.any(|line| line.starts_with("1 flows, 3 forgotten")));
    server.program.kill().unwrap();
    server.program.wait().unwrap();
}

/// Answers for six packets, and for those that come then.
const ANSWERS: &str = r#"
#include <linerate_client.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	uint8_t verdicts[LR_BURST] = {LR_PASS, LR_DROP, LR_PASS_FLOW, LR_DROP_FLOW, 99, LR_PASS};
	lr_packet packets[LR_BURST];
	lr_consumer *consumer = argc == 3 ? lr_attach(argv[1], argv[2], NULL, 0) : NULL;
	if (!consumer || lr_is_asked(consumer) != 1)
		return 10;
	if (lr_wait(consumer, 10000) != 1 || lr_receive(consumer, packets) != 6)
		return 11;
	if (lr_answer(consumer, verdicts) != 3)
		return 12;
	if (lr_wait(consumer, 10000) != 1 || lr_receive(consumer, packets) != 1)
		return 13;
	if (lr_answer(consumer, NULL) != 1)
		return 14;
	while (lr_wait(consumer, -1) >= 0)
		;
	printf("done\n");
	lr_detach(consumer);
	return 0;
}
"#;

#[test]
fn packets_are_answered_for() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = installed(folder.path());
    let source = folder.path().join("answers.c");
    fs::write(&source, ANSWERS).unwrap();
    let arena =
        ArenaOptions { size: 1 << 20, huge: false, ..ArenaOptions::default() }.create().unwrap();
    let address = format!("@linerate-c-{}-asks", std::process::id());
    let broker = Broker::open(&address, &arena).unwrap();
    let granted = Granted { access: Access::Read, cells: 64 };
    let long = Duration::from_secs(60);
    let terms = InlineConfig { limit: long, open: false, most: 64, flows: 64, flow_time: long };
    let asks = InlineHandle::new(&broker, "one", granted, terms).unwrap();
    let mut program = compiled(&source, folder.path(), &prefix);
    let program = program.args([&*address, "one"]).stdout(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while !broker.dispatcher().is_attached("one") {
        assert!(Instant::now() < until, "it attaches");
        thread::sleep(Duration::from_millis(1));
    }
    let mut pool = arena.cache(32);
    // Hosts of packets that pass, of those that are asked about and of others whose flow is known.
    for (hosts, pass) in [(&[1, 2, 3, 4, 5, 6][..], &[1, 3, 6][..]), (&[3, 4, 2, 3], &[3, 2, 3])] {
        let (mut frame, mut passed) = (Frame::new(32), Frame::new(32));
        for host in hosts {
            let packet = ip(4, 17, (*host, 9), (100, 9), false);
            let mut slot = pool.take_one(packet.len()).unwrap();
            arena.packet_mut(&mut slot).unwrap().copy_from_slice(&packet);
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

/// A program without any file of ours, not even a header: that it works shows the content of the
/// two pages that it was written by.
#[test]
fn the_documents_are_enough_for_a_program_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("attach");
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    done(compile.arg(package().join("tests/by_document/attach.c")));
    let arena =
        ArenaOptions { size: 1 << 20, huge: false, ..ArenaOptions::default() }.create().unwrap();
    let address = format!("@linerate-c-{}-document", std::process::id());
    let broker = Broker::open(&address, &arena).unwrap();
    let granted = Granted { access: Access::Write, cells: 64 };
    let sends = ConsumerHandle::to_send(&broker, "one", granted).unwrap();
    let receives = ConsumerHandle::to_receive(&broker, "one", Access::Write, 2).unwrap();
    let balancer =
        BalancerHandle::new(&broker, "b", &[("one".to_string(), 1)], granted, true).unwrap();
    let mut program =
        Command::new(program).args([&*address, "one"]).stdout(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let wait = || {
        assert!(Instant::now() < until, "it attaches and sends");
        thread::sleep(Duration::from_millis(1));
    };
    while !broker.dispatcher().is_attached("one") {
        wait();
    }
    let mut pool = arena.cache(32);
    let (mut frame, mut absent) = (Frame::new(32), Frame::new(32));
    for number in 0..3 {
        let mut slot = pool.take_one(60).unwrap();
        let packet = arena.packet_mut(&mut slot).unwrap();
        packet.fill(17);
        packet[0] = number;
        let headroom = slot.headroom();
        let meta = arena.meta_mut(&mut slot).unwrap();
        meta.reset();
        (meta.timestamp, meta.flow_hash) = (12_345_678_901_234, 0x0102_0304);
        (meta.port, meta.queue, meta.vlan, meta.paint, meta.packet_type) = (5, 6, 7, 8, 3);
        meta.network = HeaderStart::new(headroom, 14);
        (meta.destination[0], meta.destination[15]) = (10, 11);
        (meta.user[0], meta.user[23]) = (12, 13);
        frame.push(slot).unwrap();
    }
    let ids = [balancer.balancer()];
    broker.dispatcher().share_out(&ids, &[0; 3], false, &mut pool, &mut frame, &mut absent);
    let mut sent = Frame::new(32);
    // Until it ends, for the last of its words are no packets.
    while program.try_wait().unwrap().is_none() {
        broker.dispatcher().receive(receives.endpoint(), &mut pool, &mut sent);
        sends.figures();
        wait();
    }
    let output = program.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), &*String::from_utf8_lossy(&output.stdout)),
        (Some(0), "done\n")
    );
    let mut second = [17; 58];
    second[0] = 77;
    let mut third = [17; 60];
    third[0] = 2;
    let packets: Vec<&[u8]> = arena.packets(&sent).collect();
    assert_eq!(packets, [&second[..], &third, b"made here"]);
    pool.give(&mut sent);
    drop((balancer, sends, receives, broker));
    assert_eq!(arena.accounting().held, 0);
}

#[test]
#[ignore = "needs pkg-config"]
fn an_installation_has_all_that_a_program_needs() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = installed(folder.path());
    let example = package().join("examples/count.c");
    let program = folder.path().join("program");
    let compile = |flags: &[String]| {
        let mut compile = Command::new("cc");
        done(compile.arg("-o").arg(&program).arg(&example).args(flags));
        let libraries = prefix.join("lib");
        let status = Command::new(&program).env("LD_LIBRARY_PATH", libraries).status();
        assert_eq!(status.unwrap().code(), Some(2), "it asks for its arguments");
    };
    compile(&flags(&prefix, &["--cflags", "--libs"]));
    // The static library needs the libraries of its flags, and no more.
    fs::remove_file(prefix.join("lib/liblinerate_client.so")).unwrap();
    fs::remove_file(prefix.join("lib/liblinerate_client.so.0")).unwrap();
    compile(&flags(&prefix, &["--cflags", "--libs", "--static"]));
    let prefix = installed(folder.path());
    // The page knows every function of the header, as it is declared.
    let header = fs::read_to_string(prefix.join("include/linerate_client.h")).unwrap();
    let code: String = header
        .split("/*")
        .map(|part| part.split_once("*/").map_or(part, |(_, code)| code))
        .collect();
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    let page = fs::read_to_string(prefix.join("share/man/man3/linerate_client.3")).unwrap();
    let synopsis = page.lines().filter_map(|line| line.strip_prefix(".BI ")).collect::<String>();
    let synopsis = dense(&synopsis.replace('"', ""));
    let mut functions = 0;
    for declaration in code.split(';').filter(|declaration| declaration.contains('(')) {
        let (front, parameters) = declaration.split_once('(').unwrap();
        let name =
            front.rsplit(|byte: char| byte != '_' && !byte.is_alphanumeric()).next().unwrap();
        let function = dense(&format!("{name}({parameters};"));
        assert!(synopsis.contains(&function), "{function} is not in {synopsis}");
        let page = prefix.join("share/man/man3").join(format!("{name}.3"));
        assert!(page.exists(), "{page:?}");
        functions += 1;
    }
    assert_eq!(functions, 13);
    // Its example compiles.
    let shown = page.split(".EX").last().unwrap().split(".EE").next().unwrap();
    let source = folder.path().join("shown.c");
    fs::write(&source, shown.replace("\\-", "-").replace("\\en", "\\n")).unwrap();
    compiled(&source, folder.path(), &prefix);
}

/// `LINERATE_HEADER=write` has it written anew.
#[test]
fn the_header_is_made_of_the_source() {
    let config = cbindgen::Config::from_file(package().join("cbindgen.toml")).unwrap();
    let source = package().join("src/lib.rs");
    let bindings = cbindgen::Builder::new().with_config(config).with_src(source).generate();
    let mut made = Vec::new();
    bindings.unwrap().write(&mut made);
    // Marks of code are of the language that the source's words are in.
    let made = String::from_utf8(made).unwrap().replace('`', "");
    let path = package().join("include/linerate_client.h");
    if env::var("LINERATE_HEADER").is_ok_and(|value| value == "write") {
        fs::write(&path, &made).unwrap();
    }
    assert!(fs::read_to_string(path).unwrap() == made, "LINERATE_HEADER=write makes it anew");
}
