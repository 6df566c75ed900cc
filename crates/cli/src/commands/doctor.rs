//! `linerate doctor`: abilities of the machine, and advice.

use std::{fmt::Write as _, io::Write as _};

use anyhow::Result;
use linerate_linux::machine::{Finding, Machine, Status};
use serde_json::json;

use crate::args::Doctor;

pub(crate) fn run(args: &Doctor) -> Result<()> {
    let machine = Machine::inspect();
    let findings = machine.findings();
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json!({ "machine": machine, "findings": findings }))?;
    } else {
        out.write_all(text(&findings).as_bytes())?;
    }
    Ok(())
}

fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let status = match finding.status {
            Status::Ok => "ok",
            Status::Degraded => "degraded",
            Status::Missing => "missing",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{status:8}  {:width$}  {}", finding.name, finding.value);
        for (label, line) in [("so", &finding.consequence), ("try", &finding.remedy)] {
            if let Some(line) = line {
                let _ = writeln!(text, "{:8}  {:width$}    {label}: {line}", "", "");
            }
        }
    }
    let count = |status| findings.iter().filter(|finding| finding.status == status).count();
    let _ = writeln!(
        text,
        "\n{} ok, {} degraded, {} missing",
        count(Status::Ok),
        count(Status::Degraded),
        count(Status::Missing)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_line_up_and_are_counted() {
        let finding = |name, status, consequence: Option<&str>| Finding {
            name,
            status,
            value: "42".into(),
            consequence: consequence.map(str::to_owned),
            remedy: consequence.map(|_| "turn it off".into()),
        };
        assert_eq!(
            text(&[
                finding("cores", Status::Ok, None),
                finding("huge pages", Status::Degraded, Some("slow")),
            ]),
            "\
ok        cores       42
degraded  huge pages  42
                        so: slow
                        try: turn it off

1 ok, 1 degraded, 0 missing
"
        );
    }

    #[test]
    fn this_machine_is_judged() {
        assert!(text(&Machine::inspect().findings()).contains("\nok        processor "));
    }
}
