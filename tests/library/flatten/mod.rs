//! Functions made flat and written back.

mod as_run;
mod calls;
mod control_flow;
mod made;
mod top_level;
mod unread;
mod written_back;
