//! Parsing of weights.

/// Parses weights for so many consumers, as in `1 2 1`.
pub(super) fn parse(text: &str, consumers: usize) -> Result<Vec<u32>, String> {
    let number = |word: &str| {
        word.parse().map_err(|_| format!("`{word}` is no weight: they are numbers of at least 0"))
    };
    let weights = text.split_whitespace().map(number).collect::<Result<Vec<u32>, String>>()?;
    if weights.len() != consumers {
        return Err(format!("{} weights for {consumers} consumers", weights.len()));
    }
    Ok(weights)
}
