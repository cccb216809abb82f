//! Functions made flat and written back.

mod calls;
mod control_flow;
mod made;
mod written_back;
