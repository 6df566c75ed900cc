//! A straight line through points.

/// A line fitted by least squares.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearFit {
    /// Value at 0.
    pub intercept: f64,
    /// Rise per unit.
    pub slope: f64,
    /// Share of the variance it explains.
    pub r_squared: f64,
    /// Distance of each point from the line.
    pub residuals: Vec<f64>,
}

/// The line through `points`; `None` for fewer than two places.
pub fn line(points: &[(f64, f64)]) -> Option<LinearFit> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let width = sum(&|point| (point.0 - x).powi(2));
    if points.len() < 2 || width == 0.0 {
        return None;
    }
    let slope = sum(&|point| (point.0 - x) * (point.1 - y)) / width;
    let intercept = y - slope * x;
    let residuals: Vec<f64> =
        points.iter().map(|point| point.1 - intercept - slope * point.0).collect();
    let total = sum(&|point| (point.1 - y).powi(2));
    let left: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let r_squared = if total == 0.0 { 1.0 } else { 1.0 - left / total };
    Some(LinearFit { intercept, slope, r_squared, residuals })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_fitted_with_its_residuals() {
        let found = line(&[(0.0, 77.0), (10.0, 97.0), (20.0, 117.0)]).unwrap();
        assert_eq!((found.intercept, found.slope, found.r_squared), (77.0, 2.0, 1.0));
        let bent = line(&[(0.0, 0.0), (1.0, 2.0), (2.0, 1.0)]).unwrap();
        assert!((bent.r_squared - 0.25).abs() < 1e-12);
        assert!((bent.residuals[1] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_place_has_no_line() {
        assert_eq!(line(&[]), None);
        assert_eq!(line(&[(1.0, 1.0), (1.0, 2.0)]), None);
    }
}
