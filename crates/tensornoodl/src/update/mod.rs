//! Stage III: the dictionary moves (eq:emp_grad_est, eq:apx_grad).

pub(crate) mod second_moment;
pub(crate) mod sums;
