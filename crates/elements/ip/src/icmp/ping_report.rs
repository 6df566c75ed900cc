//! Report on pings, in the form of ping(8).

use std::fmt::Write as _;

/// When requests were sent and how long answers took.
#[derive(Debug)]
pub(super) struct Report {
    /// Requests by sequence number; 0 where there was none.
    requests: Vec<Request>,
    received: u64,
    duplicates: u64,
    /// Microseconds.
    shortest: u64,
    longest: u64,
    sum: u64,
    sum_of_squares: u128,
}

#[derive(Debug, Clone, Copy, Default)]
struct Request {
    /// Nanoseconds since the epoch; 0 when it was not sent.
    sent: u64,
    answered: bool,
}

impl Report {
    pub(super) fn new() -> Report {
        Report {
            requests: vec![Request::default(); 1 << 16],
            received: 0,
            duplicates: 0,
            shortest: 0,
            longest: 0,
            sum: 0,
            sum_of_squares: 0,
        }
    }

    pub(super) fn sent(&mut self, number: u16, now: u64) {
        self.requests[usize::from(number)] = Request { sent: now, answered: false };
    }

    /// Notes an answer: returns the microseconds since the request, if there was one.
    pub(super) fn answered(&mut self, number: u16, came: u64) -> Option<u64> {
        let request = &mut self.requests[usize::from(number)];
        if request.sent == 0 {
            return None;
        }
        let micros = came.saturating_sub(request.sent) / 1000;
        self.duplicates += u64::from(std::mem::replace(&mut request.answered, true));
        self.shortest = if self.received == 0 { micros } else { self.shortest.min(micros) };
        self.longest = self.longest.max(micros);
        self.sum = self.sum.saturating_add(micros);
        self.sum_of_squares += u128::from(micros) * u128::from(micros);
        self.received += 1;
        Some(micros)
    }

    pub(super) fn shortest(&self) -> String {
        seconds(self.shortest)
    }

    pub(super) fn longest(&self) -> String {
        seconds(self.longest)
    }

    pub(super) fn mean(&self) -> String {
        seconds(self.sum / self.received.max(1))
    }

    /// Returns the summary of `count` requests.
    pub(super) fn summary(&self, count: u32) -> String {
        let received = self.received - self.duplicates;
        let mut text = format!("{count} packets transmitted, {received} received");
        // Writing to a string cannot fail.
        if self.duplicates > 0 {
            let _ = write!(text, ", +{} duplicates", self.duplicates);
        }
        if count > 0 {
            let lost = u64::from(count).saturating_sub(received) * 100 / u64::from(count);
            let _ = writeln!(text, ", {lost}% packet loss");
        }
        if let Some(mean) = self.sum.checked_div(self.received) {
            let squares = self.sum_of_squares / u128::from(self.received);
            let variance = squares.saturating_sub(u128::from(mean) * u128::from(mean));
            let times = [self.shortest, mean, self.longest, variance.isqrt() as u64];
            let [shortest, mean, longest, deviation] = times.map(milliseconds);
            let _ =
                writeln!(text, "rtt min/avg/max/mdev = {shortest}/{mean}/{longest}/{deviation}");
        }
        text
    }
}

fn milliseconds(micros: u64) -> String {
    format!("{}.{:03}", micros / 1000, micros % 1000)
}

/// Microseconds as Click writes them: `0.0105s`.
fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures are Click's.
    #[test]
    fn times_are_written_as_click_writes_them() {
        for (micros, text) in [(0, "0s"), (10_500, "0.0105s"), (20_000, "0.02s"), (3_000_000, "3s")]
        {
            assert_eq!(seconds(micros), text);
        }
        let mut report = Report::new();
        for (number, took) in [(1, 10_500), (2, 10_500), (3, 10_500), (1, 20_000), (2, 20_000)] {
            if took == 10_500 {
                report.sent(number, 1);
            }
            assert_eq!(report.answered(number, 1 + took * 1000), Some(took));
        }
        assert_eq!(report.answered(9, 5), None);
        let summary = report.summary(3);
        assert!(summary.starts_with("3 packets transmitted, 3 received, +2 duplicates, 0% packet"));
        assert!(summary.ends_with("rtt min/avg/max/mdev = 10.500/14.300/20.000/4.654\n"));
        assert_eq!(Report::new().summary(0), "0 packets transmitted, 0 received");
    }
}
