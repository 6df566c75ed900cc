//! `cargo xtask conformance filter`: packets of public captures that expressions choose, with
//! tcpdump and with us.
//!
//! Each capture is read whole by `tcpdump -r FILE -w -` and by `linerate capture -r FILE -w -`,
//! which must give the same packets, and then with each expression behind it. An expression that
//! one of them refuses the other has to refuse, too. The captures are those of `captures.tsv`, or
//! all in a folder; the expressions those of `expressions.txt`, or of a file.
//!
//! tcpdump decides by libpcap's own program, which libpcap's optimizer may make look at less of
//! packets that were cut short than the expression asks for, or at bytes in front of a header. Where
//! that is why it chooses otherwise than we do, which it says with `-O`, the case is counted apart.
//! `exceptions.toml` says which captures hold records that the two read differently, and why.

mod list;
mod records;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::{fs, iter};

use anyhow::{Context, Result, bail};
use linerate_test_support::programs;
use serde::Serialize;

use self::list::Capture;
use self::records::{Record, Subjects};
use crate::shell;

const EXPRESSIONS: &str = include_str!("expressions.txt");

/// Arguments of `cargo xtask conformance filter`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder with the captures, as OWNER+REPO/COMMIT/PATH.
    #[arg(long, value_name = "DIR")]
    captures: PathBuf,
    /// Try whatever captures are somewhere in the folder, instead of those of the list.
    #[arg(long)]
    all: bool,
    /// A file with expressions, one a line, instead of those that come with this.
    #[arg(long, value_name = "FILE")]
    expressions: Option<PathBuf>,
    /// The folder with our `linerate`, instead of building it.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Only captures whose repository or path contains this text.
    #[arg(long, value_name = "PATTERN", default_value = "")]
    only: String,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// The programs that are compared.
#[derive(Debug)]
struct Programs {
    tcpdump: PathBuf,
    linerate: PathBuf,
}

impl Programs {
    fn find(args: &Args) -> Result<Programs> {
        let Some(tcpdump) = programs::find("tcpdump") else {
            bail!(
                "tcpdump, which is to judge, is missing: as root, `apt-get install tcpdump` or \
                 `cargo xtask peers`"
            );
        };
        let ours = match &args.programs {
            Some(folder) => folder.clone(),
            None => super::click::build(&["linerate"])?,
        };
        let linerate = ours.join("linerate");
        let linerate = linerate
            .canonicalize()
            .with_context(|| format!("there is no {}", linerate.display()))?;
        Ok(Programs { tcpdump, linerate })
    }

    /// Runs tcpdump on a capture, with programs of libpcap as they are or optimized.
    fn theirs(&self, file: &Path, expression: &str, optimized: bool) -> Result<ProgramOutput> {
        let mut command = Command::new(&self.tcpdump);
        command.args(["-n", "-w", "-", "-r"]).arg(file);
        if !optimized {
            command.arg("-O");
        }
        if shell::is_root() {
            // Else it becomes a user without the right to read the file.
            command.args(["-Z", "root"]);
        }
        ProgramOutput::by(command.args(["--", expression]))
    }

    /// Runs `linerate capture` on a capture.
    fn ours(&self, file: &Path, expression: &str) -> Result<ProgramOutput> {
        let mut command = Command::new(&self.linerate);
        command.args(["capture", "--quiet", "-w", "-", "--format", "pcap", "-r"]).arg(file);
        ProgramOutput::by(command.args(["--", expression]))
    }
}

/// Output of a program.
#[derive(Debug)]
enum ProgramOutput {
    Packets(Vec<Record>),
    /// Packets of another link.
    NotEthernet,
    /// Nothing, with its complaint.
    Nothing(String),
}

impl ProgramOutput {
    fn by(command: &mut Command) -> Result<ProgramOutput> {
        let shown = shell::describe(command);
        let output = command.output().with_context(|| format!("cannot start `{shown}`"))?;
        if output.stdout.is_empty() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            let last = complaint.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            return Ok(ProgramOutput::Nothing(last.to_owned()));
        }
        let read = records::read(&output.stdout).with_context(|| format!("from `{shown}`"))?;
        Ok(read.map_or(ProgramOutput::NotEthernet, ProgramOutput::Packets))
    }

    /// As packets of `all`.
    fn choice(&self, all: &[Record]) -> Choice {
        match self {
            ProgramOutput::Packets(chosen) => {
                records::numbers(chosen, all).map_or(Choice::Foreign, Choice::Packets)
            }
            ProgramOutput::NotEthernet => Choice::Foreign,
            ProgramOutput::Nothing(complaint) => Choice::Refused(complaint.clone()),
        }
    }
}

/// Choice of a program by an expression.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Choice {
    /// The packets with these numbers, from 1 on.
    Packets(Vec<usize>),
    /// With its complaint.
    Refused(String),
    /// Packets that are not in the capture.
    Foreign,
}

impl Choice {
    fn is_as(&self, other: &Choice) -> bool {
        match (self, other) {
            (Choice::Refused(_), Choice::Refused(_)) => true,
            (Choice::Packets(ours), Choice::Packets(theirs)) => ours == theirs,
            _ => false,
        }
    }

    /// Returns the packets of this one that are not in the other.
    fn beyond(&self, other: &Choice) -> String {
        match (self, other) {
            (Choice::Packets(one), Choice::Packets(other)) => {
                let alone: Vec<String> = one
                    .iter()
                    .filter(|number| !other.contains(number))
                    .map(ToString::to_string)
                    .collect();
                if alone.is_empty() { "nothing".to_owned() } else { alone.join(" ") }
            }
            (Choice::Packets(one), _) => format!("{} packets", one.len()),
            (Choice::Refused(complaint), _) => format!("refused: {complaint}"),
            (Choice::Foreign, _) => "packets that are not in the capture".to_owned(),
        }
    }
}

/// An expression that the two decide differently.
#[derive(Debug, Serialize)]
struct Difference {
    expression: String,
    tcpdump: Choice,
    linerate: Choice,
}

/// A capture and its results.
#[derive(Debug, Default, Serialize)]
struct Row {
    capture: String,
    packets: usize,
    /// Expressions that were tried on it.
    expressions: usize,
    /// Those of them that tcpdump refuses.
    refused: usize,
    /// Packets that tcpdump chose, by all of them.
    chosen: usize,
    /// Expressions that tcpdump decides as we do only without its optimizer.
    optimized: Vec<String>,
    differences: Vec<Difference>,
    /// Reason why ours may differ.
    exception: Option<String>,
    /// Reason why it does not count.
    left_out: Option<String>,
}

impl Row {
    fn compare(programs: &Programs, capture: &Capture, expressions: &[&str]) -> Result<Row> {
        let Capture { name, file } = capture;
        let mut row = Row { capture: name.clone(), ..Row::default() };
        let all = match programs.theirs(file, "", true)? {
            ProgramOutput::Packets(all) => all,
            ProgramOutput::NotEthernet => return Ok(row.without("not of Ethernet")),
            ProgramOutput::Nothing(complaint) => return Ok(row.without(&complaint)),
        };
        row.packets = all.len();
        let subjects = Subjects::from_records(&all);
        let filled = expressions.iter().filter_map(|expression| subjects.fill(expression));
        // First without one: all packets are read as they are.
        for expression in iter::once(String::new()).chain(filled) {
            let tcpdump = programs.theirs(file, &expression, true)?.choice(&all);
            let linerate = programs.ours(file, &expression)?.choice(&all);
            row.expressions += 1;
            match &tcpdump {
                Choice::Packets(chosen) => row.chosen += chosen.len(),
                Choice::Refused(_) => row.refused += 1,
                Choice::Foreign => bail!("{name}: tcpdump changes packets by `{expression}`"),
            }
            if linerate.is_as(&tcpdump) {
                continue;
            }
            if linerate.is_as(&programs.theirs(file, &expression, false)?.choice(&all)) {
                row.optimized.push(expression);
            } else {
                row.differences.push(Difference { expression, tcpdump, linerate });
            }
        }
        Ok(row)
    }

    fn without(self, reason: &str) -> Row {
        Row { left_out: Some(reason.to_owned()), ..self }
    }
}

/// The sums below the table.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Totals {
    captures: usize,
    left_out: usize,
    packets: usize,
    /// Captures with expressions.
    cases: usize,
    /// Those of them that both refuse, or that tcpdump does.
    refused: usize,
    chosen: usize,
    /// Cases that tcpdump decides as we do only without its optimizer.
    optimized: usize,
    different: usize,
    /// Of those, the ones of captures of which an exception says why.
    explained: usize,
    /// Exceptions without a case that needs them.
    outdated: Vec<String>,
}

impl Totals {
    fn from_rows(rows: &[Row]) -> Totals {
        let mut sum = Totals::default();
        for row in rows {
            let different = row.differences.len();
            sum.captures += usize::from(row.left_out.is_none());
            sum.left_out += usize::from(row.left_out.is_some());
            sum.packets += row.packets;
            sum.cases += row.expressions;
            sum.refused += row.refused;
            sum.chosen += row.chosen;
            sum.optimized += row.optimized.len();
            sum.different += different;
            if row.exception.is_some() {
                sum.explained += different;
                sum.outdated.extend((different == 0).then(|| row.capture.clone()));
            }
        }
        sum
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let programs = Programs::find(args)?;
    let mut captures =
        if args.all { list::found(&args.captures)? } else { list::listed(&args.captures)? };
    captures.retain(|capture| capture.name.contains(&args.only));
    if captures.is_empty() {
        bail!("{} has no capture with `{}` in its name", args.captures.display(), args.only);
    }
    let text = match &args.expressions {
        Some(file) => {
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?
        }
        None => EXPRESSIONS.to_owned(),
    };
    let expressions = expressions(&text);
    let exceptions: BTreeMap<String, String> =
        toml::from_str(include_str!("exceptions.toml")).context("exceptions.toml is not valid")?;
    let mut rows = compare(&programs, &captures, &expressions)?;
    for row in &mut rows {
        row.exception = exceptions.get(&row.capture).cloned();
    }
    let totals = Totals::from_rows(&rows);
    if args.json {
        let all = serde_json::json!({
            "captures": rows, "expressions": expressions.len(), "totals": totals
        });
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        print(&rows, &totals, expressions.len());
    }
    let unexplained = totals.different - totals.explained;
    if unexplained > 0 {
        bail!("{unexplained} of {} cases are decided differently", totals.cases);
    }
    if totals.captures == 0 {
        bail!("none of {} captures could be compared", totals.left_out);
    }
    Ok(())
}

fn expressions(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// Compares several captures at a time.
fn compare(programs: &Programs, captures: &[Capture], expressions: &[&str]) -> Result<Vec<Row>> {
    let next = Mutex::new((1..).zip(captures));
    let take = || {
        let taken = next.lock().ok().and_then(|mut next| next.next());
        taken.inspect(|(number, capture)| {
            eprintln!("{number}/{} {}", captures.len(), capture.name);
        })
    };
    let rows = || {
        let row = |(number, capture): (usize, &Capture)| {
            Row::compare(programs, capture, expressions).map(|row| (number, row))
        };
        iter::from_fn(take).map(row).collect::<Result<Vec<_>>>()
    };
    // A program that is started for a few packets mostly waits.
    let threads = 2 * thread::available_parallelism().map_or(1, usize::from);
    let parts: Result<Vec<_>> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(rows)).collect();
        let joined = running.into_iter().map(|thread| match thread.join() {
            Ok(rows) => rows,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    let mut all: Vec<_> = parts?.into_iter().flatten().collect();
    all.sort_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, row)| row).collect())
}

fn print(rows: &[Row], totals: &Totals, expressions: usize) {
    println!(
        "{:>7} {:>11} {:>7} {:>8} {:>9} {:>9} capture",
        "packets", "expressions", "refused", "chosen", "optimized", "different"
    );
    for row in rows {
        match &row.left_out {
            Some(reason) => println!("{:>56} {}: left out, {reason}", "-", row.capture),
            None => println!(
                "{:>7} {:>11} {:>7} {:>8} {:>9} {:>9} {}",
                row.packets,
                row.expressions,
                row.refused,
                row.chosen,
                row.optimized.len(),
                row.differences.len(),
                row.capture
            ),
        }
    }
    for row in rows.iter().filter(|row| !row.differences.is_empty()) {
        println!("\n{}", row.capture);
        if let Some(reason) = &row.exception {
            println!("  {reason}");
            continue;
        }
        for Difference { expression, tcpdump, linerate } in &row.differences {
            println!("  {expression}");
            println!("    only tcpdump:  {}", tcpdump.beyond(linerate));
            println!("    only linerate: {}", linerate.beyond(tcpdump));
        }
    }
    println!(
        "\n{expressions} expressions on {} captures with {} packets; {} were left out\n\
         {} cases: tcpdump refuses {}, and chooses {} packets in the others\n\
         {} are decided as by tcpdump only without its optimizer, {} differently, {} of them for a \
         known reason",
        totals.captures,
        totals.packets,
        totals.left_out,
        totals.cases,
        totals.refused,
        totals.chosen,
        totals.optimized,
        totals.different,
        totals.explained
    );
    if !totals.outdated.is_empty() {
        println!("exceptions that are not needed: {}", totals.outdated.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_many_and_each_is_there_once() {
        let mut expressions = expressions(EXPRESSIONS);
        let count = expressions.len();
        assert!(count >= 200, "{count}");
        expressions.sort_unstable();
        expressions.dedup();
        assert_eq!(expressions.len(), count);
    }

    #[test]
    fn choices_differ_by_packets_and_not_by_complaints() {
        let packets = |numbers: &[usize]| Choice::Packets(numbers.to_vec());
        let refused = |text: &str| Choice::Refused(text.to_owned());
        assert!(packets(&[1, 3]).is_as(&packets(&[1, 3])));
        assert!(!packets(&[1, 3]).is_as(&packets(&[1])));
        assert!(refused("syntax error").is_as(&refused("no")));
        assert!(!packets(&[]).is_as(&refused("no")));
        assert!(!Choice::Foreign.is_as(&Choice::Foreign));
        assert_eq!(packets(&[1, 2, 3]).beyond(&packets(&[2])), "1 3");
        assert_eq!(packets(&[2]).beyond(&packets(&[1, 2])), "nothing");
        assert_eq!(packets(&[2]).beyond(&refused("no")), "1 packets");
        assert_eq!(refused("no").beyond(&packets(&[2])), "refused: no");
    }

    #[test]
    fn sums_are_of_what_counts() {
        let difference = Difference {
            expression: "ip".to_owned(),
            tcpdump: Choice::Packets(vec![1]),
            linerate: Choice::Packets(Vec::new()),
        };
        let one = Row {
            packets: 5,
            expressions: 3,
            refused: 1,
            chosen: 7,
            optimized: vec!["ip[-1] = 0".to_owned()],
            differences: vec![difference],
            ..Row::default()
        };
        let known = Row {
            capture: "a/b/c.pcap".to_owned(),
            exception: Some("why".to_owned()),
            ..Row::default()
        };
        let rows = [one, Row::default().without("not of Ethernet"), known];
        let totals = Totals {
            captures: 2,
            left_out: 1,
            packets: 5,
            cases: 3,
            refused: 1,
            chosen: 7,
            optimized: 1,
            different: 1,
            explained: 0,
            outdated: vec!["a/b/c.pcap".to_owned()],
        };
        assert_eq!(Totals::from_rows(&rows), totals);
    }
}
