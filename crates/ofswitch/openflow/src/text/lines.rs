//! Files of flows: one in a line.

/// A line with content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLine<'t> {
    /// Number of the line, from 1 on.
    pub number: usize,
    /// Its text, without spaces around it and without a comment behind it.
    pub text: &'t str,
}

/// Returns the lines of a file, without comments behind a `#` and without empty lines.
pub fn lines(file: &str) -> impl Iterator<Item = TextLine<'_>> {
    let lines = file.lines().enumerate().map(|(nth, line)| {
        let text = line.split_once('#').map_or(line, |(text, _)| text).trim();
        TextLine { number: nth + 1, text }
    });
    lines.filter(|line| !line.text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_left_out() {
        let file = "# all\n\nip,actions=drop # none\r\n  arp actions=normal\n";
        let found: Vec<_> = lines(file).map(|line| (line.number, line.text)).collect();
        assert_eq!(found, [(3, "ip,actions=drop"), (4, "arp actions=normal")]);
    }
}
