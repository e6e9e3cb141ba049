"""The names of attributes that are not part of an op's definition: who writes each, who reads it."""

# --- on the module ---------------------------------------------------------------------------------------------------

# The size of the grid. JAX writes it, and options do (legalize/grid.py); the front end, legalization and backends read.
REPLICAS, PARTITIONS = "mhlo.num_replicas", "mhlo.num_partitions"
# What jax.export says beside a module. frontend/jax_export.py writes and reads it.
PLATFORMS, LEAVES, KEPT = "jax.platforms", "jax.leaves", "jax.kept"
# The meshes that shardings name, as text; a module without it has no shardings. The front end writes it;
# dialect/sharding.py reads it.
MESHES = "hlo.meshes"
# All arguments and results are replicated: every process of a grid has the same. The front end writes it, backends
# read it.
REPLICATED = "hlo.replicated"
# Windows of scatters count as a whole or not at all; on an op, those of that scatter. dialect/scatter_windows.py writes
# it, evaluation and backends read it.
WHOLE_WINDOWS = "hlo.whole_windows"
# What a call of a program with dynamic dimensions must hold to. `infer-symbolic-shapes` writes it, backends read it.
CHECKS = "hlo.checks"
# The size of the arena; pairs of input and output that share a buffer. `buffer-assignment` writes both, backends read.
ARENA_BYTES, DONATIONS = "hlo.arena_bytes", "hlo.donations"
# By fusion: where in the arena nothing lives at its calls, so that its scratch may lie there; none for those at which
# the whole arena lives. `buffer-assignment` writes it, backends read it.
FREE_MEMORY = "hlo.free_memory"
# The code is linked by others, who bring the functions that it calls. A backend that makes a library writes and reads
# it.
LINKED = "hlo.linked"

# --- on functions ----------------------------------------------------------------------------------------------------

# The kind of a fusion. `fusion` and `outline-loops` write it; later passes and backends know fusions by it.
FUSION = "hlo.fusion"
# Pairs of input and output of a fusion that share memory. `buffer-assignment` writes it, kernels read it.
INPLACE = "hlo.inplace"
# The groups that meet at each barrier; what goes to the host; queues between processes; how many ops draw random
# numbers. Legalization writes them, backends read them.
BARRIERS, PORTS, CHANNELS, RANDOM_SITES = "hlo.barriers", "hlo.ports", "hlo.channels", "hlo.random_sites"

# --- on arguments and results ----------------------------------------------------------------------------------------

# The argument that says which process runs. Legalization writes it, backends read it.
PROCESS = "hlo.process"
# The quantized type of an argument or a result. `legalize-quantized` writes it, backends read it.
QUANTIZED = "hlo.quantized"
# The output that an argument's buffer is for, and an argument whose buffer is for any. JAX writes both;
# `buffer-assignment` reads them.
ALIASING_OUTPUT, BUFFER_DONOR = "tf.aliasing_output", "jax.buffer_donor"
# The name of a result, and of an argument that JAX adds. JAX writes both; backends and the front end read them.
RESULT_INFO, GLOBAL_CONSTANT = "jax.result_info", "jax.global_constant"

# --- on ops ----------------------------------------------------------------------------------------------------------

# Where each result lies: memory space, number, offset, bytes. `buffer-assignment` writes it, backends read it.
SLICES = "hlo.slices"
# The results of a call that lie in the windows which their only readers, updates, put them into. `place-results` writes
# it, `buffer-assignment` and backends read it.
PLACED = "hlo.placed"
# The carries of a loop that it overwrites whole, by number; a call whose results nobody reads, which is not made, and a
# broadcast in a fusion that need not be.
# `mark-stacks` writes the one, `drop-fills` reads it and, like `place-results`, writes the other, backends read that.
OVERWRITTEN, UNREAD = "hlo.overwritten", "hlo.unread"
# A gather whose start indices need no clamping. `clamp-before-loops` writes it, backends may read it.
IN_BOUNDS = "hlo.in_bounds"
# A sine, cosine or tangent of f32 or f64 whose operand is at most 2^14 in absolute value, wherever its result counts.
# `bound-angles` writes it, code generation may read it.
SMALL_ANGLE = "hlo.small_angle"
# A window that holds SymInts, in place of the op's own attributes. `infer-symbolic-shapes`
# writes it; dialect/window.py reads it.
WINDOW = "hlo.window"
# Order in memory of the dimensions of a custom call's buffers, and the user's line. Legalization writes, backends read.
OPERAND_ORDERS, RESULT_ORDERS, SITE = "hlo.operand_orders", "hlo.result_orders", "hlo.site"
# A call of LAPACK on matrices that lie by rows. `block-factorizations` writes it, backends read it.
BY_ROWS = "hlo.by_rows"
# The zero point of every result of a collective of quantized values. `legalize-quantized` writes it, `legalize-to-hlo`
# reads it.
ZEROS = "hlo.zeros"
# How a value is distributed over devices, as XLA's text. JAX writes it; frontend/gspmd.py reads it.
MHLO_SHARDING = "mhlo.sharding"
# The same in Shardy's syntax, a text for each result, and on arguments and results of functions; Shardy's rule of a
# custom call. The front end writes both, what replaces ops carries them over, `drop-shardings` removes those of ops.
SHARDING, SHARDING_RULE = "hlo.sharding", "hlo.sharding_rule"
# How the whole value is sharded of which a custom call takes a shard, or that it puts together, in Shardy's syntax; the
# axes that count, where not all do. The front end writes both and makes ops of the calls (frontend/shards.py).
SHARDS, MANUAL_AXES = "hlo.shards", "hlo.manual_axes"
# Attributes and configuration of a custom call that MHLO has and StableHLO has not. JAX writes, legalization reads.
MHLO_ATTRIBUTES, MHLO_CONFIGURATION = "mhlo.attributes", "mhlo.backend_config"
