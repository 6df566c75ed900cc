//! Reports of a results directory, for people and for programs.
//!
//! A [`Report`] is data. [`html()`] makes one file of it that needs no network, with every figure
//! drawn, its values in a table, and the command that measures them; [`Report::markdown`] a text;
//! serialised it is the same for programs.

mod build;
mod figure;
mod html;
mod plot;
mod table;

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

pub use build::{PEERS, ReportError, calibrated, model_tables, report};
pub use figure::{Axis, Figure, Mark, Scale, Series, SeriesSource};
pub use html::html;
pub use plot::{PlotError, svg};
pub use table::Table;

use crate::criteria::{Criterion, Verdict};

/// All content of a results directory's report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Its title.
    pub title: String,
    /// Time of its making, its source and the version.
    pub made: String,
    /// The main results, a paragraph each.
    pub summary: Vec<String>,
    /// The machine's description.
    pub machine: Table,
    /// The shape criteria.
    pub criteria: Vec<Criterion>,
    /// Fits, residuals and gates.
    pub model: Vec<Table>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Published figures beside ours.
    pub published: Vec<Table>,
    /// Other programs, where they were measured in the same run.
    pub peers: Vec<Table>,
    /// Limits of the figures.
    pub limitations: Vec<String>,
    /// Commands that measure all of it again.
    pub commands: String,
}

/// Figures that a report opens with.
const FINDINGS: usize = 3;

impl Report {
    /// The figures that come first, and the others.
    fn parted(&self) -> (&[Figure], &[Figure]) {
        self.figures.split_at(self.figures.len().min(FINDINGS))
    }

    /// The report as Markdown. Figures are `figures/ID.svg` and their values
    /// `figures/ID.csv` beside it.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}\n", self.title, self.made);
        // Writing to a string cannot fail.
        for line in &self.summary {
            let _ = write!(text, "\n{line}\n");
        }
        let tables = |text: &mut String, title: &str, tables: &[Table]| {
            if !tables.is_empty() {
                let _ = write!(text, "\n## {title}\n");
            }
            for table in tables {
                let _ = write!(text, "\n### {}\n", table.title);
                if !table.caption.is_empty() {
                    let _ = write!(text, "\n{}\n", table.caption);
                }
                let _ = write!(text, "\n{}", table.markdown());
            }
        };
        let figure = |text: &mut String, figure: &Figure| {
            let Figure { id, title, caption, command, .. } = figure;
            let _ = write!(
                text,
                "\n### {title}\n\n![{title}](figures/{id}.svg)\n\n{caption}\n\n\
                 `{command}` · [data](figures/{id}.csv)\n"
            );
        };
        let (findings, others) = self.parted();
        text.push_str("\n## What was found\n");
        for one in findings {
            figure(&mut text, one);
            let _ = write!(text, "\n{}\n", one.numbers());
        }
        let title = if others.is_empty() { "" } else { "\n## Figures\n" };
        let mut figures = String::from(title);
        others.iter().for_each(|one| figure(&mut figures, one));
        let verdicts = self.verdicts();
        let mut criteria = String::from("\n## What any machine must show\n");
        if !verdicts.rows.is_empty() {
            let _ = write!(criteria, "\n{}", verdicts.markdown());
        }
        if !verdicts.caption.is_empty() {
            let _ = write!(criteria, "\n{}\n", verdicts.caption);
        }
        // Of a part the figures matter most, of all the criteria.
        let (first, second) =
            if self.is_partial() { (figures, criteria) } else { (criteria, figures) };
        text.extend([first, second]);
        tables(&mut text, "The model", &self.model);
        tables(&mut text, "Published figures beside ours", &self.published);
        tables(&mut text, "Peers in the same run", &self.peers);
        tables(&mut text, "The machine", std::slice::from_ref(&self.machine));
        let _ = write!(text, "\n## Limitations\n\n");
        for line in &self.limitations {
            let _ = writeln!(text, "- {line}");
        }
        let _ = write!(text, "\n## Making this again\n\n```\n{}\n```\n", self.commands);
        text
    }

    /// All tables.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.machine.clone(), self.verdicts()];
        for part in [&self.model, &self.published, &self.peers] {
            tables.extend(part.iter().cloned());
        }
        tables
    }

    /// Returns true if there are criteria without measurements.
    pub fn is_partial(&self) -> bool {
        self.unmeasured().next().is_some()
    }

    fn unmeasured(&self) -> impl Iterator<Item = &Criterion> {
        self.criteria.iter().filter(|one| one.verdict == Verdict::NotMeasured)
    }

    /// The criteria that something was measured for.
    pub fn judged(&self) -> impl Iterator<Item = &Criterion> {
        self.criteria.iter().filter(|one| one.verdict != Verdict::NotMeasured)
    }

    /// A sentence on the other criteria, if there are any.
    pub fn not_judged(&self) -> String {
        let numbers: Vec<String> = self.unmeasured().map(|one| one.number.to_string()).collect();
        match numbers.len() {
            0 => String::new(),
            _ => format!("Not measured here: criteria {}.", numbers.join(", ")),
        }
    }

    /// The criteria as a table.
    pub fn verdicts(&self) -> Table {
        let columns = ["No.", "Criterion", "Verdict", "Evidence"];
        let title = "What any machine must show";
        let mut table = Table::new("criteria", title, &self.not_judged(), &columns);
        for Criterion { number, text, verdict, evidence, .. } in self.judged() {
            table.push([number.to_string(), text.clone(), verdict.to_string(), evidence.clone()]);
        }
        table
    }
}
