"""Sentence-embedding models and language models: texts to vectors, prompts to validated answers.

How a model call is retried, from the inside out:

1. A malformed answer goes back to the model with what is wrong, `validation_retries` times (`remote`, by instructor).
2. A temporary failure (429, 5xx, time-out, connection lost; `failures` has the kinds) is sent again `transient_retries`
   times, after the time that the server names or a growing pause (`remote.ask`, `budget.RateLimit.recover`). A failure
   that no repetition can mend (a wrong key, an unknown model) ends the run with the way out.
3. After five failed prompts in a row the provider counts as down, and each later prompt is tried once
   (`request_batch`). What is left stays pending for the next run; only answers that could not be used count as tries.
4. In batch mode, prompts that come back unpaid are submitted again (`batches`).

Every paid answer is in the ledger before it is used (`request_batch`, `storage/paid_answers`), so no retry pays twice.
The tasks around the calls have no retries of their own for them (`tasks/runtime/retrying`).
"""
