/* A node as the machine describes itself: NCCL's topology XML, or the matrix of `nvidia-smi topo -m`. Either becomes
 * a NodeImport, which becomes the text of a cluster file, so that the same thing is printed, drawn and written. What
 * the dump leaves out is taken from topologies/imports/links.yaml, and each such assumption is noted. */
#pragma once
#include "node_topology.h"

typedef struct {
  char *source;     /* "NCCL's topology XML /tmp/topo.xml"; owned */
  int sm;           /* compute capability × 10; 0: not said */
  char *cpu_vendor; /* owned; NULL: not said */
  int cpu_model;

  NodeTopology node; /* sockets, switches, ports; node_import_yaml() fills the rails. A Bps of 0: not said. Pairs are
                        direct NVLinks between GPUs */
  int *switch_links; /* owned; [n_gpus]: NVLinks of a GPU to NVSwitches */
  double nic_Bps;    /* 0: not said */
  GPtrArray *notes;  /* owned, of char *: what was left out or assumed */
} NodeImport;

/* The user's additions. NULL or 0: not given. */
typedef struct {
  const char *name;       /* of the cluster; required */
  const char *gpu;        /* the GPU's file */
  const char *generation; /* "hopper", …; overrides the dump */
  double nic_Bps;         /* overrides the dump */
} ImportChoices;

/* Parse what NCCL_TOPO_DUMP_FILE writes: system > cpu > pci (nested) > gpu > nvlink, nic > net. `text` has `length`
 * bytes and is NUL-terminated; errors call it `name`. INPUT with name:line for: other XML or none, devices outside a
 * bus, impossible GPUs or PCIe rates, more than 1,024 GPUs or NICs. */
NodeImport *nccl_xml_parse(const char *name, const char *text, gsize length, GError **error);
/* Parse what `nvidia-smi topo -m` prints. INPUT with name:line for: no matrix, rows that do not match the header, an
 * unknown relation, two halves that disagree. */
NodeImport *smi_matrix_parse(const char *name, const char *text, gsize length, GError **error);
typedef NodeImport *(*NodeImportParser)(const char *name, const char *text, gsize length, GError **error);
/* The same for a file. */
NodeImport *node_import_read(const char *file, NodeImportParser parse, GError **error);
NodeImport *node_import_new(char *source); /* takes the source; all else is zero */
void node_import_free(NodeImport *import);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(NodeImport, node_import_free)
void node_import_note(NodeImport *import, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* The text of a cluster file for cluster_read(); completes `import` (rails, notes). Owned by the caller. INPUT if
 * generation or NIC bandwidth is neither in the dump nor given, or unknown. */
char *node_import_yaml(NodeImport *import, const ImportChoices *choices, GError **error);
