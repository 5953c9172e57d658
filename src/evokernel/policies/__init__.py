"""Search strategies, one module each: a policy chooses the stage and the context of an attempt, and learns from its reward."""
