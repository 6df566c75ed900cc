//! Real numbers as Click shows them: C's `%.12g`.

/// Digits that are shown at most.
const DIGITS: usize = 12;

/// A number with at most twelve digits, none of them a zero at the end, and an exponent
/// where it is very large or small.
pub fn format_g(value: f64) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if !value.is_finite() {
        return format!("{sign}{}", if value.is_nan() { "nan" } else { "inf" });
    }
    // Rounding may add a digit in front, so this decides which exponent it has.
    let scientific = format!("{value:.*e}", DIGITS - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS as i32).contains(&exponent) {
        let behind = (DIGITS as i32 - 1 - exponent) as usize;
        return without_zeros(&format!("{value:.behind$}")).into();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

/// A number without the zeros at the end of its fraction.
fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of `printf` of the C library.
    #[test]
    fn numbers_as_c_writes_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (7.0, "7"),
            (-2.5, "-2.5"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.333333333333"),
            (1_002.004_008_016_032, "1002.00400802"),
            (100_200.400_801_603, "100200.400802"),
            (0.000_123_456_789_012_345, "0.000123456789012"),
            (0.000_1, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (1e-100, "1e-100"),
            (1e11, "100000000000"),
            (1e12, "1e+12"),
            (999_999_999_999.0, "999999999999"),
            (999_999_999_999.9, "1e+12"),
            (0.999_999_999_999_9, "1"),
            (123_456_789_012_345.0, "1.23456789012e+14"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "-nan"),
        ] {
            assert_eq!(format_g(value), text);
        }
    }
}
