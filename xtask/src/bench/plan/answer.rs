//! An answer of `linerate plan`, beside the rate reached; the table of all.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Allowed error of an answer.
const ALLOWED: f64 = 0.15;

/// Result of asking.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// Packets per second: the answer, the ends of its interval of 90 %, and the rate reached.
    Given { predicted: f64, low: f64, high: f64, reached: f64 },
    /// There was none, and why.
    Refused(String),
}

/// A configuration and the answer.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) answer: Answer,
}

impl Answer {
    /// Returns true if more was reached than with another one.
    pub(super) fn is_better_than(&self, other: &Answer) -> bool {
        match (self, other) {
            (Answer::Given { reached, .. }, Answer::Given { reached: other, .. }) => {
                reached > other
            }
            (Answer::Given { .. }, Answer::Refused(_)) => true,
            (Answer::Refused(_), _) => false,
        }
    }

    fn parse(answer: &Value) -> Option<Answer> {
        let plan = &answer["throughput_pps"];
        Some(Answer::Given {
            predicted: plan["value"].as_f64()?,
            low: plan["low"].as_f64()?,
            high: plan["high"].as_f64()?,
            reached: answer["measured_pps"].as_f64()?,
        })
    }

    /// Returns how much more was predicted than reached, as a share of that.
    fn error(&self) -> Option<f64> {
        match *self {
            Answer::Given { predicted, reached, .. } if predicted == reached => Some(0.0),
            Answer::Given { predicted, reached, .. } => Some(predicted / reached - 1.0),
            Answer::Refused(_) => None,
        }
    }

    fn is_near(&self) -> bool {
        self.error().is_some_and(|error| error.abs() <= ALLOWED)
    }

    fn is_inside(&self) -> bool {
        match *self {
            Answer::Given { low, high, reached, .. } => (low..=high).contains(&reached),
            Answer::Refused(_) => false,
        }
    }
}

/// Runs `linerate plan`, with measuring and checking, and reads its answer.
pub(super) fn ask(command: &mut Command) -> Result<Answer> {
    let output = command
        .args(["--measure", "--check", "--confidence", "90", "--json"])
        .output()
        .context("cannot run linerate")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let reason = complaint(&text).unwrap_or_else(|| output.status.to_string());
        return Ok(Answer::Refused(reason));
    }
    let answer: Value =
        serde_json::from_slice(&output.stdout).context("linerate plan printed no JSON")?;
    Ok(Answer::parse(&answer).unwrap_or_else(|| Answer::Refused(format!("no figures: {answer}"))))
}

/// Returns the first error of a text.
fn complaint(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines.clone().find(|line| line.contains("error:"));
    error.or_else(|| lines.next_back()).map(str::to_owned)
}

/// Number of answers of each kind.
#[derive(Debug, PartialEq)]
struct Summary {
    all: usize,
    answered: usize,
    near: usize,
    inside: usize,
}

impl Summary {
    fn from_rows(rows: &[Row]) -> Summary {
        let count = |is: fn(&Answer) -> bool| rows.iter().filter(|row| is(&row.answer)).count();
        Summary {
            all: rows.len(),
            answered: count(|answer| matches!(answer, Answer::Given { .. })),
            near: count(Answer::is_near),
            inside: count(Answer::is_inside),
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Summary { all, answered, near, inside } = self;
        write!(
            f,
            "answered {answered} of {all}, within {:.0} %: {near}, inside the 90 % interval: {inside}",
            ALLOWED * 100.0
        )
    }
}

/// Prints all of them.
pub(super) fn show(rows: &[Row], as_json: bool) {
    let summary = Summary::from_rows(rows);
    if as_json {
        let all: Vec<Value> = rows.iter().map(json_of).collect();
        let Summary { all: of, answered, near, inside } = summary;
        let text = json!({
            "configurations": all, "allowed": ALLOWED, "of": of, "answered": answered,
            "within": near, "inside": inside,
        });
        println!("{text}");
        return;
    }
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).clamp(13, 48);
    println!(
        "{:<width$} {:>10} {:>22} {:>10} {:>8}  interval",
        "configuration", "plan Mpps", "90 %", "reached", "error"
    );
    for Row { name, answer } in rows {
        // The end of a path says more than its beginning.
        let letters = name.chars().count();
        let name: String = name.chars().skip(letters.saturating_sub(width)).collect();
        let mega = |rate: f64| rate / 1e6;
        match answer {
            Answer::Given { predicted, low, high, reached } => {
                let interval = format!("{:.3} to {:.3}", mega(*low), mega(*high));
                let error = answer.error().unwrap_or(f64::NAN) * 100.0;
                let inside = if answer.is_inside() { "inside" } else { "OUTSIDE" };
                println!(
                    "{name:<width$} {:>10.3} {interval:>22} {:>10.3} {error:>+6.1} %  {inside}",
                    mega(*predicted),
                    mega(*reached)
                );
            }
            Answer::Refused(reason) => println!("{name:<width$} {reason}"),
        }
    }
    println!("{summary}");
}

fn json_of(row: &Row) -> Value {
    let name = &row.name;
    match &row.answer {
        Answer::Given { predicted, low, high, reached } => json!({
            "configuration": name,
            "predicted_pps": { "value": predicted, "low": low, "high": high },
            "measured_pps": reached,
            "error": row.answer.error(),
            "inside": row.answer.is_inside(),
        }),
        Answer::Refused(reason) => json!({ "configuration": name, "refused": reason }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(predicted: f64, low: f64, high: f64, reached: f64) -> Answer {
        Answer::Given { predicted, low, high, reached }
    }

    #[test]
    fn answers_are_counted() {
        let row = |answer| Row { name: "a".to_owned(), answer };
        let rows = [
            row(given(10e6, 9e6, 11e6, 9.5e6)),
            row(given(10e6, 5e6, 20e6, 7e6)),
            row(given(10e6, 9.9e6, 10.1e6, 9e6)),
            row(given(0.0, 0.0, 0.0, 0.0)),
            row(Answer::Refused("no".to_owned())),
        ];
        let summary = Summary::from_rows(&rows);
        assert_eq!(summary, Summary { all: 5, answered: 4, near: 3, inside: 3 });
        let text = "answered 4 of 5, within 15 %: 3, inside the 90 % interval: 3";
        assert_eq!(summary.to_string(), text);
    }

    #[test]
    fn the_most_that_is_reached_counts() {
        let (slow, fast) = (given(1.0, 1.0, 1.0, 2.0), given(1.0, 1.0, 1.0, 3.0));
        let refused = Answer::Refused("no".to_owned());
        assert!(fast.is_better_than(&slow) && !slow.is_better_than(&fast));
        assert!(slow.is_better_than(&refused) && !refused.is_better_than(&slow));
    }

    #[test]
    fn answers_are_read() {
        let plan = json!({ "value": 3.0, "low": 2.0, "high": 4.0 });
        let answer = json!({ "throughput_pps": plan, "measured_pps": 3.5 });
        assert_eq!(Answer::parse(&answer), Some(given(3.0, 2.0, 4.0, 3.5)));
        assert_eq!(Answer::parse(&json!({ "throughput_pps": plan, "measured_pps": null })), None);
    }

    #[test]
    fn complaints_are_found() {
        let text = "note: x\nlinerate: error: no such thing\n\n  1 | a\n";
        assert_eq!(complaint(text).unwrap(), "linerate: error: no such thing");
        assert_eq!(complaint("measuring\nlast\n").unwrap(), "last");
        assert_eq!(complaint(" \n"), None);
    }
}
