//! Tickets of elements' tasks: the settings of `ScheduleInfo`.

use std::collections::HashMap;

/// Tickets of a task that `ScheduleInfo` does not name.
pub const TICKETS_DEFAULT: u32 = 1024;
/// Most tickets a task can have.
pub const TICKETS_LIMIT: u32 = 1 << 15;

/// Tickets given for elements and compounds.
#[derive(Debug, Default)]
pub struct Schedule {
    /// By the compound it was said in, with the slash behind it, and the name
    /// it was said about there.
    said: HashMap<(String, String), u32>,
}

impl Schedule {
    /// Sets the `tickets` of `name`, as the compound `prefix` gives them. A later setting replaces
    /// an earlier one.
    pub fn say(&mut self, prefix: &str, name: &str, tickets: u32) {
        let name = name.strip_suffix('/').unwrap_or(name);
        self.said.insert((prefix.into(), name.into()), tickets);
    }

    /// The tickets of the element of that name: its own, times those of the compounds around it, in
    /// units of [`TICKETS_DEFAULT`]. A setting farther out about something inside replaces the one
    /// there, and those there about the compounds between.
    pub(crate) fn tickets(&self, element: &str) -> u32 {
        if self.said.is_empty() {
            return TICKETS_DEFAULT;
        }
        let ends = element.match_indices('/').map(|(at, _)| at + 1);
        // The compounds around it, outermost first, and it.
        let parts: Vec<&str> = ends.chain([element.len()]).map(|end| &element[..end]).collect();
        let mut factors = vec![TICKETS_DEFAULT; parts.len()];
        let compounds = parts[..parts.len() - 1].iter().copied();
        for context in [""].into_iter().chain(compounds).collect::<Vec<_>>().into_iter().rev() {
            let mut found = false;
            for (part, factor) in parts.iter().zip(&mut factors).rev() {
                let Some(inner) = part.strip_prefix(context) else { break };
                let name = inner.strip_suffix('/').unwrap_or(inner);
                if let Some(tickets) = self.said.get(&(context.to_owned(), name.to_owned())) {
                    *factor = *tickets;
                    found = true;
                } else if found {
                    *factor = TICKETS_DEFAULT;
                }
            }
        }
        let product = |all: u64, factor: &u32| {
            (all * u64::from(*factor) / u64::from(TICKETS_DEFAULT)).min(TICKETS_LIMIT.into())
        };
        factors.iter().fold(u64::from(TICKETS_DEFAULT), product) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tickets(said: &[(&str, &str, u32)], element: &str) -> u32 {
        let mut schedule = Schedule::default();
        for (prefix, name, tickets) in said {
            schedule.say(prefix, name, *tickets);
        }
        schedule.tickets(element)
    }

    #[test]
    fn inner_and_outer_numbers() {
        for (said, element, expected) in [
            (&[][..], "i", 1024),
            (&[("", "i", 512)], "i", 512),
            (&[("", "i", 512)], "c/i", 1024),
            (&[("c/", "i", 512)], "c/i", 512),
            (&[("c/", "i", 512)], "cc/i", 1024),
            // A compound's number multiplies.
            (&[("c/", "i", 512), ("", "c", 4096)], "c/i", 2048),
            (&[("c/", "i", 512), ("", "c/", 4096)], "c/i", 2048),
            // A setting outside about the element itself replaces its own number; one in the same
            // place about the compound stays.
            (&[("c/", "i", 512), ("", "c", 4096), ("", "c/i", 10752)], "c/i", TICKETS_LIMIT),
            (&[("c/", "i", 512), ("c/d/", "i", 2), ("c/", "d/i", 2048)], "c/d/i", 2048),
            (&[("", "i", 1), ("", "i", 3072)], "i", 3072),
            (&[("", "i", u32::MAX)], "i", TICKETS_LIMIT),
            (&[("", "c", 0), ("c/", "i", 99)], "c/i", 0),
        ] {
            assert_eq!(tickets(said, element), expected, "{element} with {said:?}");
        }
    }
}
