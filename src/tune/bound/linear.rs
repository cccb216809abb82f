//! A linear program, and what its optimum certainly does not go below.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, SupportedConeT};

/// How many steps the interior-point method takes at most. What it has by then is good enough: any multipliers give a bound.
const MOST_ITERATIONS: u32 = 60;

/// Of the sum of the magnitudes of all that is added up, what rounding may change.
const ROUNDING: f64 = 1e-12;

/// The sum of these variables, each times a number.
pub(super) type Terms = Vec<(usize, f64)>;

/// A row says of a sum that it is no more than a number, or just that.
struct Row {
    terms: Terms,
    right: f64,
    is_equal: bool,
}

/// What is to be as little as possible: variables from zero up to where they end, and rows that hold for them.
#[derive(Default)]
pub(super) struct LinearProgram {
    costs: Vec<f64>,
    /// The most that each variable is in any solution that counts.
    ends: Vec<f64>,
    rows: Vec<Row>,
}

impl LinearProgram {
    /// A variable from zero to `end`, which costs so much.
    pub fn variable(&mut self, end: f64, cost: f64) -> usize {
        self.costs.push(cost);
        self.ends.push(end.max(0.0));
        self.costs.len() - 1
    }

    /// The sum is no more than this.
    pub fn at_most(&mut self, terms: Terms, right: f64) {
        self.rows.push(Row { terms, right, is_equal: false });
    }

    /// The sum is just this.
    pub fn equal(&mut self, terms: Terms, right: f64) {
        self.rows.push(Row { terms, right, is_equal: true });
    }

    /// A number that no solution costs less than, near the least that one costs; none if the solver finds nothing.
    ///
    /// It does not rely on the solver: whatever multipliers the rows get, each solution costs at least what comes out if each variable
    /// for itself is where that is least, between zero and its end (weak duality).
    pub fn bound(&self) -> Option<f64> {
        let multipliers = self.multipliers()?;
        let (mut sum, mut magnitude) = (0.0f64, 0.0f64);
        let mut reduced = self.costs.clone();
        for (row, &multiplier) in self.rows.iter().zip(&multipliers) {
            let multiplier = if row.is_equal { multiplier } else { multiplier.max(0.0) };
            if !multiplier.is_finite() {
                return None;
            }
            sum -= multiplier * row.right;
            magnitude += (multiplier * row.right).abs();
            for &(variable, factor) in &row.terms {
                reduced[variable] += multiplier * factor;
                magnitude += (multiplier * factor * self.ends[variable]).abs();
            }
        }
        for (&cost, &end) in reduced.iter().zip(&self.ends) {
            sum += cost.min(0.0) * end;
        }
        let bound = sum - magnitude * ROUNDING;
        bound.is_finite().then_some(bound)
    }

    /// What the solver says of how much each row matters.
    fn multipliers(&self) -> Option<Vec<f64>> {
        let count = self.costs.len();
        let equal = self.rows.iter().filter(|row| row.is_equal).count();
        // Equalities come first, and behind all rows that no variable is below zero.
        let mut places = Vec::with_capacity(self.rows.len());
        let (mut next_equal, mut next_other) = (0, equal);
        for row in &self.rows {
            let next = if row.is_equal { &mut next_equal } else { &mut next_other };
            places.push(*next);
            *next += 1;
        }
        let rows = self.rows.len() + count;
        let mut right = vec![0.0; rows];
        let (mut at_row, mut at_column, mut factors) = (Vec::new(), Vec::new(), Vec::new());
        for (row, &place) in self.rows.iter().zip(&places) {
            right[place] = row.right;
            for &(variable, factor) in &row.terms {
                at_row.push(place);
                at_column.push(variable);
                factors.push(factor);
            }
        }
        for variable in 0..count {
            at_row.push(self.rows.len() + variable);
            at_column.push(variable);
            factors.push(-1.0);
        }
        let matrix = CscMatrix::new_from_triplets(rows, count, at_row, at_column, factors);
        let cones = [SupportedConeT::ZeroConeT(equal), SupportedConeT::NonnegativeConeT(rows - equal)];
        let settings =
            DefaultSettings { verbose: false, max_iter: MOST_ITERATIONS, ..DefaultSettings::default() };
        let quadratic = CscMatrix::zeros((count, count));
        let mut solver =
            DefaultSolver::new(&quadratic, &self.costs, &matrix, &right, &cones, settings).ok()?;
        solver.solve();
        let multipliers = &solver.solution.z;
        Some(places.iter().map(|&place| multipliers[place]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two things of different worth that share what there is of two resources: solved by hand.
    #[test]
    fn the_optimum_is_bounded_from_below_and_nearly_reached() {
        let mut program = LinearProgram::default();
        // The most of 3x + 5y with x <= 4, 2y <= 12, 3x + 2y <= 18 is 36.
        let x = program.variable(10.0, -3.0);
        let y = program.variable(10.0, -5.0);
        program.at_most(vec![(x, 1.0)], 4.0);
        program.at_most(vec![(y, 2.0)], 12.0);
        program.at_most(vec![(x, 3.0), (y, 2.0)], 18.0);
        let bound = program.bound().unwrap();
        assert!(bound <= -36.0 && bound > -36.001, "{bound}");
        // With all of the second resource to be used for the first thing.
        program.equal(vec![(y, 1.0)], 3.0);
        let bound = program.bound().unwrap();
        assert!(bound <= -27.0 && bound > -27.001, "{bound}");
    }

    #[test]
    fn nothing_to_decide_costs_nothing() {
        let mut program = LinearProgram::default();
        program.variable(1.0, 2.0);
        let bound = program.bound().unwrap();
        assert!(bound <= 0.0 && bound > -1e-6, "{bound}");
    }
}
