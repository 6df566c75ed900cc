//! Row: one line of a measurement, in one form for all of them.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::baseline::Figure;

/// One case at one burst against one peer.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) case: Cow<'static, str>,
    pub(super) burst: u32,
    pub(super) peer: &'static str,
    /// Cycles per packet or object of each repetition.
    pub(super) ours: Vec<f64>,
    pub(super) theirs: Vec<f64>,
    /// Rates in Mpps, where the network decides.
    pub(super) rates: Vec<(f64, f64)>,
    /// Load of both sides, where that is known.
    pub(super) loads: Vec<[Load; 2]>,
}

/// Load of a side, as shares of its time and of its packets. A side that is idle for part of the
/// time, or has no place for packets it sends, has the rate of the other end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Of its time, in rounds with packets.
    pub(super) busy: f64,
    /// Of the packets it was to send, those it did not.
    pub(super) dropped: f64,
    /// As `busy`, of the side at its other end, where that is known.
    pub(super) far_busy: f64,
    pub(super) far_dropped: f64,
}

pub(super) fn best(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The median as a multiple of the reference's, as printed.
pub(super) fn multiple(values: &[f64], reference: Option<Figure>) -> String {
    reference
        .map_or_else(|| "-".into(), |reference| format!("{:.2}", median(values) / reference.median))
}

/// The row of that case, made if there is none.
pub(super) fn row<'a>(
    rows: &'a mut Vec<Row>,
    case: impl Into<Cow<'static, str>>,
    burst: u32,
    peer: &'static str,
) -> &'a mut Row {
    let case = case.into();
    let same = |row: &Row| row.case == case && (row.burst, row.peer) == (burst, peer);
    let at = rows.iter().position(same).unwrap_or_else(|| {
        let (ours, theirs) = (Vec::new(), Vec::new());
        rows.push(Row { case, burst, peer, ours, theirs, rates: Vec::new(), loads: Vec::new() });
        rows.len() - 1
    });
    &mut rows[at]
}

impl Row {
    pub(super) fn print_header() {
        println!(
            "{:<24} {:>5} {:>9} {:>9} {:>7}   {:<20} {:>9} {:>9} {:>7}  Mpps",
            "case", "burst", "best", "median", "of ref", "peer", "best", "median", "ratio"
        );
    }

    /// The median over repetitions of ours divided by theirs: cycles, or rates where there are any.
    pub(super) fn ratio(&self) -> f64 {
        let ratios: Vec<f64> = if self.rates.is_empty() {
            self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs).collect()
        } else {
            self.rates.iter().map(|(ours, theirs)| ours / theirs).collect()
        };
        median(&ratios)
    }

    /// The medians of a side: 0 is ours.
    fn load(&self, side: usize) -> Option<Load> {
        let median_of = |part: fn(&Load) -> f64| {
            median(&self.loads.iter().map(|loads| part(&loads[side])).collect::<Vec<_>>())
        };
        let load = || Load {
            busy: median_of(|load| load.busy),
            dropped: median_of(|load| load.dropped),
            far_busy: median_of(|load| load.far_busy),
            far_dropped: median_of(|load| load.far_dropped),
        };
        (!self.loads.is_empty()).then(load)
    }

    fn rate_medians(&self) -> Option<(f64, f64)> {
        let (ours, theirs): (Vec<f64>, Vec<f64>) = self.rates.iter().copied().unzip();
        (!ours.is_empty()).then(|| (median(&ours), median(&theirs)))
    }

    pub(super) fn json(&self) -> Value {
        let mut row = json!({
            "case": self.case,
            "burst": self.burst,
            "cycles_best": best(&self.ours),
            "cycles_median": median(&self.ours),
            "peer": self.peer,
            "peer_cycles_best": best(&self.theirs),
            "peer_cycles_median": median(&self.theirs),
            "ratio_median": self.ratio(),
        });
        if let Some((ours, theirs)) = self.rate_medians() {
            row["mpps_median"] = ours.into();
            row["peer_mpps_median"] = theirs.into();
            row["ratio_of"] = "mpps".into();
        }
        for (side, name) in ["", "peer_"].into_iter().enumerate() {
            if let Some(Load { busy, dropped, far_busy, far_dropped }) = self.load(side) {
                row[format!("{name}busy_median")] = busy.into();
                row[format!("{name}dropped_median")] = dropped.into();
                row[format!("{name}far_busy_median")] = far_busy.into();
                row[format!("{name}far_dropped_median")] = far_dropped.into();
            }
        }
        row
    }

    /// Prints it, with the median as a multiple of the reference's.
    pub(super) fn print(&self, reference: Option<Figure>) {
        let rates = self
            .rate_medians()
            .map_or(String::new(), |(ours, theirs)| format!("{ours:.2} against {theirs:.2}"));
        let percent = |of: fn(&Load) -> f64| {
            let percent = |side: Load| match of(&side) * 100.0 {
                unknown if unknown.is_nan() => "-".to_owned(),
                percent => format!("{percent:.0}"),
            };
            [0, 1].map(|side| self.load(side).map_or_else(String::new, percent)).join(" and ")
        };
        let loads = if self.loads.is_empty() {
            String::new()
        } else {
            format!(
                "; busy {} %, no place for {} %; the other end busy {} %, no place for {} %",
                percent(|load| load.busy),
                percent(|load| load.dropped),
                percent(|load| load.far_busy),
                percent(|load| load.far_dropped),
            )
        };
        println!(
            "{:<24} {:>5} {:>9.2} {:>9.2} {:>7}   {:<20} {:>9.2} {:>9.2} {:>7.2}  {rates}{loads}",
            self.case,
            self.burst,
            best(&self.ours),
            median(&self.ours),
            multiple(&self.ours, reference),
            self.peer,
            best(&self.theirs),
            median(&self.theirs),
            self.ratio(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_are_of_medians() {
        let reference = Some(Figure { best: 1.0, median: 20.0 });
        assert_eq!(multiple(&[90.0, 10.0, 30.0], reference), "1.50");
        assert_eq!(multiple(&[90.0], None), "-");
    }
}
